nginx:
  test.nop: []
