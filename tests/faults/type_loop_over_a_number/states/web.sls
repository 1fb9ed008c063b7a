{% for site in pillar.sites %}
{{ site }}:
  test.nop: []
{% endfor %}
