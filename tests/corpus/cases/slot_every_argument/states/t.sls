a:
  file.managed:
    - name: __slot__:salt:test.echo(@TMP@/slotted)
    - contents: __slot__:salt:test.echo(hello)
    - mode: __slot__:salt:test.echo("0600")
b:
  test.configurable_test_state:
    - changes: true
    - comment: __slot__:salt:test.echo(made)
c:
  cmd.run:
    - name: __slot__:salt:test.echo("echo hi")
e:
  file.managed:
    - name: @TMP@/e
    - contents: __slot__:salt:test.kwarg(a=b).a ~ tail
f:
  file.managed:
    - name: @TMP@/f
    - contents:
      - __slot__:salt:test.echo(one)
      - two
g:
  test.nop:
    - name: __slot__:salt:nosuch.fun(one)
