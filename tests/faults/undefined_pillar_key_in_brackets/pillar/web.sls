{% for key in ['workers', 'port'] %}
{% if loop.first %}
nginx:
{% endif %}
  {{ key }}: 80
{% endfor %}
