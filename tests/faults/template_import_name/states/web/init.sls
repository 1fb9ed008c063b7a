{% from 'web/map.jinja' import wbe %}
nginx:
  pkg.installed:
    - name: {{ wbe.pkg }}
