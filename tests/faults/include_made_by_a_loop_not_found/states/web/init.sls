include:
{% for part in ['pkg', 'config'] %}
  - web.{{ part }}
{% endfor %}
