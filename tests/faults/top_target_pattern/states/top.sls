base:
  'web-(0[1-9]':
    - match: pcre
    - web
