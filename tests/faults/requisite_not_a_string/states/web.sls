nginx:
  test.nop:
    - require:
      - test: 80
