# Which hosts get which data. Only the hosts named here see it in their templates; everybody who can read this
# repository sees the files, so what is secret is encrypted (`#!yaml|gpg`, `#!yaml|age`).
base:
  '*':
    - motd
