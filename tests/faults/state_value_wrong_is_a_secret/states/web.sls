/etc/app.conf:
  file.managed:
    - contents: hello
    - mode: {{ pillar['app']['password'] }}
