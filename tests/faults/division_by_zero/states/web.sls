{% set shards = 0 %}
nginx:
  test.nop:
    - note: {{ 100 / shards }}
