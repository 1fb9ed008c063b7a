nginx:
  test.nop:
    - note: {{ pillar['ngnix'].workers }}
