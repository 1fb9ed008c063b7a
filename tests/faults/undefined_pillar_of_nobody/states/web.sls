nginx:
  test.nop:
    - note: {{ pillar.nginx.workers }}
