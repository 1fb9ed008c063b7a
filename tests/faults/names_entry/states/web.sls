tools:
  test.nop:
    - names:
      - one:
        - note: a
      - two: {note: b}
      - [three]
