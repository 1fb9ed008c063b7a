sites:
  one: plain
  two: 'a: b'
