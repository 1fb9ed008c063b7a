nginx:
  test.nop:
    - note: {{ 'a' | replace('a') }}
