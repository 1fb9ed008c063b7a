nginx:
  test.nop:
    - note: |text
        more
