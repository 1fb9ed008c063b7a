{% if grains.os != 'Windows' %}
{{ raise('this SLS is for Windows') }}
{% endif %}
