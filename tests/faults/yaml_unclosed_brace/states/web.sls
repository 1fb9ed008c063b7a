nginx:
  test.nop: [{note: a]
