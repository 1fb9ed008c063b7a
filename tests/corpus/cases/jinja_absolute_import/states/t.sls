{% from "@TMP@/../states/sub/map.jinja" import a %}
{% import "@TMP@/../states/sub/map.jinja" as m %}
{% include "@TMP@/../states/sub/inc.jinja" %}
x:
  test.show_notification:
    - text: {{ a }} {{ m.a }}
