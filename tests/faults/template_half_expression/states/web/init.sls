include:
  - web.conf
