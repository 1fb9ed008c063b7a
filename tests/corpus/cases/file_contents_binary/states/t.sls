b:
  file.managed:
    - name: @TMP@/b
    - contents: !!binary |
        iVBORw0KGgoAAAD/
