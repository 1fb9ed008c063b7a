{% if pillar.nginx.worker > 2 %}
nginx:
  test.nop: []
{% endif %}
