nginx:
  test.nop:
    - note: {{ ''.__class__.__mro__ }}
