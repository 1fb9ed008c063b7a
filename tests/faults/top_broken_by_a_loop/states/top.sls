base:
{% for role in ['web', 'db'] %}
  'role:{{ role }}':
    - match: grains
    - {{ role }}
{% endfor %}
