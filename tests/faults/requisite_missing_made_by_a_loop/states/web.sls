{% for name in ['a', 'b'] %}
site-{{ name }}:
  test.nop:
    - require:
      - test: base-{{ name }}
{% endfor %}
base-a:
  test.nop: []
