motd: hello
nginx:
  workers: 4
