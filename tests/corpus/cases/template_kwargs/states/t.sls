a:
  file.managed:
    - name: @TMP@/a
    - source: salt://a.j2
    - template: jinja
    - apache:
        port: 80
    - other: x
r:
  file.recurse:
    - name: @TMP@/r
    - source: salt://r
    - template: jinja
    - extra: y
s:
  cmd.script:
    - name: s.sh
    - source: salt://s.sh
    - template: jinja
    - extra: y
    - defaults: {extra2: z}
