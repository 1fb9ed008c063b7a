base:
  'db-*':
    - web
