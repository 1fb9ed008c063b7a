nginx:
  test.nop:
    - note: {{ pillar.nginx.workrs }}
