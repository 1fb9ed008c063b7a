include:
  - nginx
extend:
  nginx:
    service: running
