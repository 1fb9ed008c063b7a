base:
  'os:Debian':
    - mtach:
    - web
