nginx:
  test.nop:
    - note: {{ salt['pillar.get']('nginx').wrkers }}
