a:
  test.succeed_without_changes: []
b:
  test.nop:
    - onchanges: [{test: a}]
c:
  test.fail_without_changes: []
d:
  test.nop:
    - require: [{test: c}]
e:
  test.nop:
    - onfail: [{test: a}]
f:
  test.nop:
    - unless: "true"
g:
  test.nop:
    - onlyif: "false"
h:
  test.nop:
    - creates: /etc
p:
  test.succeed_with_changes:
    - parallel: true
q:
  test.nop:
    - prereq: [{test: a}]
i:
  file.managed:
    - name: @TMP@/i
    - contents: |
        one
i2:
  file.managed:
    - name: @TMP@/i
    - contents: |
        one  
    - ignore_whitespace: true
