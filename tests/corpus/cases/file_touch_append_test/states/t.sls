a:
  file.touch:
    - name: @TMP@/a
b:
  file.touch:
    - name: @TMP@/no/b
c:
  file.touch:
    - name: @TMP@/no/c
    - makedirs: true
d:
  file.append:
    - name: @TMP@/d
    - text: x
e:
  file.append:
    - name: @TMP@/no/e
    - text: x
f:
  file.append:
    - name: @TMP@/no/f
    - text: x
    - makedirs: true
g:
  file.prepend:
    - name: @TMP@/no/g
    - text: x
h:
  file.pruned:
    - name: @TMP@
    - recurse: true
