{% set nginx = pillar.nginx %}
nginx:
  test.nop:
    - note: {{ nginx.workes }}
