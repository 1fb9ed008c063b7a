nginx:
  test.nop:
    - note: {{ salt.grains.gett('os') }}
