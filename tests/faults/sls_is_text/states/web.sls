{% set name = 'nginx' %}
{{ name }}
