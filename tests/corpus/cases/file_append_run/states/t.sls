e:
  file.append:
    - name: @TMP@/no/e
    - text: x
f:
  file.touch:
    - name: @TMP@/no/e
g:
  file.prepend:
    - name: @TMP@/no/e
    - text: x
