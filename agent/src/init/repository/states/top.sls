# Which hosts get which states. Every SLS named here is a file: `motd` is motd.sls or motd/init.sls.
base:
  '*':
    - motd
  # 'web-*':
  #   - nginx
  # 'os:Debian':
  #   - match: grain
  #   - debian
