base:
  'web-*': web
  'db-*':
    web: true
