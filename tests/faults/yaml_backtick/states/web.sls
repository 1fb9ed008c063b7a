nginx:
  test.nop:
    - note: `date`
