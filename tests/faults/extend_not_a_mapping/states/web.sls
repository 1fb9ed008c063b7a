extend:
  - nginx
