nginx:
  test.nop:
    - note: {{ pillar.nginx.listen_address }}
