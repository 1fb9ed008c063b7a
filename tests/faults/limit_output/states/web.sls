{% set line = 'x' * 1000000 %}
{% for i in range(100) %}
# {{ line }}
{% endfor %}
