exclude:
  - id: ngnix
  - sls: other
nginx:
  service.running: []
