{% import_yaml 'web/defaults.yaml' as defaults %}
nginx:
  test.nop:
    - note: {{ defaults.workers }}
