{% from 'web/macros.jinja' import site %}
{{ site('a') }}
