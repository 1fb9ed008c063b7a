base:
  'web-* and and G@os:Debian':
    - match: compound
    - web
