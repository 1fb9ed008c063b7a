{% macro site(name) %}
site-{{ name }}:
  test.nop: []
{% endmacro %}
{{ site('a', 'b') }}
