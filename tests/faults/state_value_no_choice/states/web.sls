reload:
  exec.run:
    - command: systemctl reload nginx
    - provider: shel
/etc/motd:
  file.managed:
    - source: salt://motd
    - template: jnija
    - mode: kept
/etc/hosts:
  file.line:
    - mode: append
    - content: 192.0.2.1 db
