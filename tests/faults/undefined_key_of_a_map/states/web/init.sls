{% from 'web/map.jinja' import web with context %}
nginx:
  pkg.installed:
    - name: {{ web.package }}
