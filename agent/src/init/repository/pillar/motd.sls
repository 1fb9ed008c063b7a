motd:
  file: /etc/motd
  contact: ops@example.org
