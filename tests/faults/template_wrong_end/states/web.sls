{% for name in ['a', 'b'] %}
{% if name %}
{{ name }}:
  test.nop: []
{% endfor %}
{% endif %}
