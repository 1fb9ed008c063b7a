base:
  '( web-* or db-*':
    - match: compound
    - web
