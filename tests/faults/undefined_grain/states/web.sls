nginx:
  test.nop:
    - note: {{ grains.os_famly }}
