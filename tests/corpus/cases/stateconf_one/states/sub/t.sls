#!stateconf yaml . jinja
include:
  - .other
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
    - name: named
    - require:
      - test: .one
.three:
  test.nop: []
extend:
  .other::x:
    test:
      - require:
        - test: two
