include:
  - nginx
extend:
  nginx: {}
