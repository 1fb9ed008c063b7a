m:
  cmd.run:
    - name: mkdir -p @TMP@/p/a/b @TMP@/q/c; touch @TMP@/q/f
p:
  file.pruned:
    - name: @TMP@/p
    - recurse: true
q:
  file.pruned:
    - name: @TMP@/q
    - recurse: true
r:
  file.pruned:
    - name: @TMP@/none
t:
  file.pruned:
    - name: @TMP@/q
