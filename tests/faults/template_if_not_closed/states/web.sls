{% if grains.os == 'Debian' %}
nginx:
  pkg.installed: []
