db:
  password: "hunter2: it"
