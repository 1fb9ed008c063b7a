# what the web servers share
nginx:
  workers: 4
  secret: hunter2
