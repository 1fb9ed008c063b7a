{% for a in range(10000) %}{% for b in range(10000) %}{% set x = b %}{% endfor %}{% endfor %}
nginx:
  pkg.installed: []
