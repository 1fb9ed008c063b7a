base:
  '*':
    - web
    - proxy
