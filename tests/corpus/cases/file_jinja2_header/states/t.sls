a:
  file.managed:
    - name: @TMP@/a
    - source: salt://a.j2
    - template: jinja
b:
  file.managed:
    - name: @TMP@/b
    - source: salt://b.j2
    - template: jinja
c:
  file.managed:
    - name: @TMP@/c
    - source: salt://c.j2
    - template: jinja
