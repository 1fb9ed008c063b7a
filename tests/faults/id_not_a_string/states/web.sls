80:
  test.nop: []
yes:
  test.nop: []
