base:
  - web
