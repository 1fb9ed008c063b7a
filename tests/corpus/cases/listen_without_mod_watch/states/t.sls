a:
  test.succeed_with_changes: []
b:
  test.nop:
    - listen: [{test: a}]
c:
  file.managed:
    - name: @TMP@/c
    - contents: x
    - listen: [{test: a}]
d:
  cmd.run:
    - name: echo listened
    - listen: [{test: a}]
e:
  test.succeed_with_changes:
    - listen: [{test: a}]
