{% from 'web/a.jinja' import a %}
nginx:
  pkg.installed: []
