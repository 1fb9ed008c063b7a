include:
  - web.service
