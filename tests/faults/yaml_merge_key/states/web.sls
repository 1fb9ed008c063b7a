nginx:
  <<: text
  test.nop: []
