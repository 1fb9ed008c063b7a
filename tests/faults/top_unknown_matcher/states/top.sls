base:
  'os:Debian':
    - match: grian
    - web
