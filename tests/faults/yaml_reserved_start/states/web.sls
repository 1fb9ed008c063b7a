nginx:
  test.nop:
    - note: @home
