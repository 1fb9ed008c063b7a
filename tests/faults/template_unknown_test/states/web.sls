{% if 'a' is defind %}
nginx:
  pkg.installed: []
{% endif %}
