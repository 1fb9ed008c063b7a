{% load_yaml as defaults %}
nginx:
  workers: 4
  port: a: b
{% endload %}
nginx:
  test.nop:
    - note: {{ defaults.nginx.workers }}
