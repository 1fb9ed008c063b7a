/etc/motd:
  file.managed:
    - contents: hello
    - user: root
    - source: salt://motd
