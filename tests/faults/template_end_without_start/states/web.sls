nginx:
  pkg.installed: []
{% endfor %}
