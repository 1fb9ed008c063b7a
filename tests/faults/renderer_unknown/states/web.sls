#!jinjaa|yaml
nginx:
  pkg.installed: []
