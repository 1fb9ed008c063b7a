a:
  file.managed:
    - name: @TMP@/a
    - source: salt://|a?b.txt
b:
  file.managed:
    - name: @TMP@/b
    - source: salt://a.txt?saltenv=base
