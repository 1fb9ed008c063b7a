base:
  'web-*':
    - web
