#!stateconf -o yaml . jinja
.a:
  test.nop: []
b:
  test.nop: []
.c:
  test.nop:
    - require:
      - test: .a
