a:
  test.succeed_with_changes: []
b:
  service.running:
    - name: nosuchsvc
    - listen: [{test: a}]
    - onlyif: "false"
g:
  group.present:
    - name: root
    - listen: [{test: a}]
