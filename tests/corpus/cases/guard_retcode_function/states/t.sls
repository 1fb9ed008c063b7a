a:
  test.nop:
    - onlyif:
      - fun: test.retcode
        args: [0]
b:
  test.nop:
    - unless:
      - fun: test.retcode
        code: 1
c:
  test.nop:
    - onlyif:
      - fun: test.retcode
        args: [1]
