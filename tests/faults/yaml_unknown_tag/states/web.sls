nginx:
  test.nop:
    - note: !vault abc
