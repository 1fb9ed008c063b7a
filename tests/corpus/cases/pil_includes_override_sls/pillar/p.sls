include:
  - q
  - r:
      key: k
x: own
k: {a: own}
l: [1]
