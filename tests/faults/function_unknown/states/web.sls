nginx:
  test.nop:
    - note: {{ salt['pilar.get']('a') }}
