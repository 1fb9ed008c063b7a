{% from 'web/macros.jinja' import site %}
start:
  test.nop: []
{{ site('a') }}
{{ site('b: c') }}
