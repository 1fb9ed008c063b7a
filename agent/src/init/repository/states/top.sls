# Which hosts get which states. Each SLS name is a file: `motd` is motd.sls or motd/init.sls.
base:
  '*':
    - motd
  # 'web-*':
  #   - nginx
  # 'os:Debian':
  #   - match: grain
  #   - debian
