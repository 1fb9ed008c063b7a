{% macro again(n) %}{{ again(n + 1) }}{% endmacro %}
nginx:
  test.nop:
    - note: {{ again(0) }}
