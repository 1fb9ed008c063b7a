nginx:
  test.nop:
    - note: 'it's here
apache:
  test.nop:
    - note: "never closed
