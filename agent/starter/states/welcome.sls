# A file made from a template: who logs in sees what the host knows about itself.
greeting:
  file.managed:
    - name: /tmp/zagent-demo/motd
    - source: salt://motd.jinja
    - template: jinja
    - mode: '0644'
    - require:
      - file: demo directory

demo directory:
  file.directory:
    - name: /tmp/zagent-demo
    - mode: '0755'
