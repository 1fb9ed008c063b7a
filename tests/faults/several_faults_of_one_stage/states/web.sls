nginx:
  test.nop:
    - note: {{ nothing }}
