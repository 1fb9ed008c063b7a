a:
  test.nop:
    - x: "{{ {'a': {'b': nope}} }}"
