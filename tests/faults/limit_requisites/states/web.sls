{% for i in range(800) %}
state-{{ i }}:
  test.nop:
    - require:
      - sls: web
{% endfor %}
