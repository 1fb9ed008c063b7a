#!stateconf -G yaml . jinja
.a:
  test.nop: []
b:
  test.nop
