nginx:
  pkg.installed: []
{% include 'common/footer.jinja' %}
