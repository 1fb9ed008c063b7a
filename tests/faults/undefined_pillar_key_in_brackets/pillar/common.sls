nginx:
  workers: 1
