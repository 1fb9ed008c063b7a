nginx:
  test.nop:
    - note: "ab"
