{% if grains.os == 'Debian' %}
nginx:
  test.nop:
    - note: {{ pillar['nginx']['worker'] }}
{% endif %}
