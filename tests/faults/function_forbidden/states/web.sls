nginx:
  test.nop:
    - note: {{ salt['cmd.run']('hostname') }}
