base: web
