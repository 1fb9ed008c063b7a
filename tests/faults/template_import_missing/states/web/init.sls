{% from 'web/mpa.jinja' import web with context %}
nginx:
  pkg.installed: []
