nginx:
  workers: 4
  ports: [80, 443]
