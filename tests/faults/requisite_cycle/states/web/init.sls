include:
  - web.b
a:
  test.nop:
    - require:
      - test: b
