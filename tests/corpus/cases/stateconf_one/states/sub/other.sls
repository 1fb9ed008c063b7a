#!stateconf yaml . jinja
.x:
  test.nop: []
