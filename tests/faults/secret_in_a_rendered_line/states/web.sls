nginx:
  test.nop:
    - note: {{ pillar.db.password }}
