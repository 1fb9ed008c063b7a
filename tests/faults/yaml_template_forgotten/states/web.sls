#!yaml
nginx:
  test.nop:
    - note: {{ name }}
