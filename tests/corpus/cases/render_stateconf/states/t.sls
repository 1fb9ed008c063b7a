#!stateconf yaml . jinja
.params:
  stateconf.set:
    - a: 1
    - b: two
# --- end of state config ---
.one:
  test.show_notification:
    - text: {{ params.a }} {{ params.b }}
two:
  test.nop:
    - require:
      - test: .one
