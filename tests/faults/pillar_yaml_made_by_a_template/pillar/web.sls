{% set secret = 'hunter2: x' %}
db:
  password: {{ secret }}
