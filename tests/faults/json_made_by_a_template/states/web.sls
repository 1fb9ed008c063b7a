#!jinja|json
{
{% for name in ['a', 'b'] %}
  "{{ name }}": {"test.nop": []}
{% endfor %}
}
