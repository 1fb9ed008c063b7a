first:
  test.nop: []
www.example.org:
  site.present: []
