db:
  password: "hunter2
  user: web
