nginx:
  test.nop:
    - note: "C:\Users\me"
