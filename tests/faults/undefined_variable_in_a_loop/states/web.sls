{% for site in ['a', 'b'] %}
site-{{ site }}:
  test.nop:
    - note: {{ sit.name }}
{% endfor %}
