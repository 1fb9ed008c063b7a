nginx:
  test.nop:
    - note: {{ salt['pillar.get']('a', defualt=1) }}
