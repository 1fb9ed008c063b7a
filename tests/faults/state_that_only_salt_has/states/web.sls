shop:
  lxd_container.present:
    - running: true
motd:
  test.nop: []
