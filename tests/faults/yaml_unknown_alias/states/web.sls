defaults: &default
  test.nop: []
nginx: *defaults
