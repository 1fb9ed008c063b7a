{% set title = 'web: the best' %}
nginx:
  test.nop:
    - note: {{ title }}
