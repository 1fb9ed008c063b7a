nginx:
  test.nop:
    - note: !!int abc
