a:
  test.nop:
    - require_in:
      - test: b
    - require:
      - test: b
b:
  test.nop: []
