base:
  'web-*':
    - wbe
    - web
