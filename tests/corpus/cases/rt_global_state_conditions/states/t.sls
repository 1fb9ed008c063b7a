denied:
  test.succeed_with_changes: []
denied_guard:
  test.succeed_with_changes:
  - unless: /bin/true
needs:
  test.nop:
  - require:
    - test: denied
changes:
  test.nop:
  - onchanges:
    - test: denied
by_module:
  file.managed:
  - name: '@TMP@/no'
  - contents: x
allowed:
  cmd.run:
  - name: echo x > @TMP@/yes
any:
  test.configurable_test_state:
  - changes: false
  - result: true
