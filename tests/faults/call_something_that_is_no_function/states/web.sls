{% set site = 'a' %}
nginx:
  test.nop:
    - note: {{ site('x') }}
