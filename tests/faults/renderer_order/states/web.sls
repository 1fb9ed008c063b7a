#!yaml|jinja
nginx:
  pkg.installed: []
