{% import_json 'web/defaults.json' as defaults %}
nginx:
  test.nop:
    - note: {{ defaults.workers }}
