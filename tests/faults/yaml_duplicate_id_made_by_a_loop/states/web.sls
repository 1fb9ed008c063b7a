{% for name in ['a', 'b', 'a'] %}
site-{{ name }}:
  test.nop: []
{% endfor %}
