base:
  '*':
    - web
    - db
    - missing
