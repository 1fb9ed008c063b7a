nginx:
  1: [installed]
