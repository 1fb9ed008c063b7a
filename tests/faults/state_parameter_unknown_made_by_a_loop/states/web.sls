{% for name in ['a', 'b'] %}
{{ name }}:
  user.present:
    - shel: /bin/{{ name }}
{% endfor %}
