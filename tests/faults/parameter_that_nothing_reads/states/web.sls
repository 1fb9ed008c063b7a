/etc/app.conf:
  file.managed:
    - source: salt://app.conf
    - template: jinja
    - listen_port: 8080
/etc/other.conf:
  file.managed:
    - source: salt://app.conf
    - listen_port: 8080
