include:
  - nginx
extend:
  ngnix:
    service:
      - running
