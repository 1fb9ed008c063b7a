first:
  cmd.run:
  - name: touch @TMP@/busy; for i in $(seq 100); do test -e @TMP@/seen && break; sleep
      0.01; done; rm @TMP@/busy
  - parallel: true
second:
  cmd.run:
  - name: touch @TMP@/seen; test ! -e @TMP@/busy
  - parallel: true
last:
  cmd.run:
  - name: test -e @TMP@/seen
  - require:
    - cmd: first
    - cmd: second
