nginx:
  file.managed:
    - name: /etc/a
  file.directory:
    - name: /etc/b
