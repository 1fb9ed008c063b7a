{% for name, title in pillar.sites.items() %}

site-{{ name }}:
  test.nop:
    - note: {{ title }}
{% endfor %}
