/etc/motd:
  file.managed:
    - contents: hello
    - mode: rw-r--r--
    - makedirs: 'false'
    - user: [root]
/etc/nginx:
  file.recurse:
    - source: salt://nginx
    - file_mode: 888
    - context: workers
/usr/bin/app:
  exec.run:
    - timeout: soon
ready:
  test.nop:
    - order: soon
    - umask: {a: 1}
