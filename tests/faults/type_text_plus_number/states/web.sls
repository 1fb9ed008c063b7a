nginx:
  test.nop:
    - note: {{ pillar.token + 1 }}
