nginx:
  test.nop:
    - note: {{ '[' * 200 }}{{ ']' * 200 }}
