{% set workers = 4 %}
nginx:
  test.nop:
    - note: {{ wokers }}
