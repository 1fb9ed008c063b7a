# Which hosts get which data. Only the hosts that match here see the data in their templates. Anyone who can read this
# repository can read the files, so encrypt secrets (`#!yaml|gpg`, `#!yaml|age`).
base:
  '*':
    - motd
