nginx:
  test.nop:
    - note: {{ 'x' * 999999999 }}
