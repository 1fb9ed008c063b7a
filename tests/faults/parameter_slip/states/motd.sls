/etc/motd:
  file.managed:
    - content: welcome
    - mode: '0644'
