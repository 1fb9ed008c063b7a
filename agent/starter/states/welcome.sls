# A file rendered from a template: it shows facts about the host to users who log in.
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
