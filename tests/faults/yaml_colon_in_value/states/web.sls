nginx:
  test.nop:
    - note: listen: 80
