nginx:
  test.nop:
    - note: {{ '{{ name }}' }}
