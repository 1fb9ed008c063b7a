#!yaml|age
user: web
password: |
  -----BEGIN AGE ENCRYPTED FILE-----
  YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSBub3RoaW5n
  -----END AGE ENCRYPTED FILE-----
