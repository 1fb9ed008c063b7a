{% set x = 1 %}
mk:
  cmd.run:
    - name: mkdir -p @TMP@/src; printf '\x89PNG\000\377{{ '{{' }} x }}' > @TMP@/src/b.png
    - creates: @TMP@/src/b.png
b:
  file.managed:
    - name: @TMP@/b.png
    - source: @TMP@/src/b.png
    - template: jinja
