nginx:
  test.nop:
    - note: München
