{% from 'web/map.jinja' import web %}
nginx:
  pkg.installed: []
