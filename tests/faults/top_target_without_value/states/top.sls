base:
  'os':
    - match: grain
    - web
