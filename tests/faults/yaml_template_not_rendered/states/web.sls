#!yaml
{% set x = 1 %}
nginx:
  pkg.installed: []
