a:
  test.nop:
    - x: "{{ [nope, {'a': nope}] }}"
    - y: "{{ {'a': [nope]} }}"
    - z: "{{ {'a': nope}|string }}"
