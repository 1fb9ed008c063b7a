{% fro name in ['a', 'b'] %}
{{ name }}:
  test.nop: []
{% endfor %}
