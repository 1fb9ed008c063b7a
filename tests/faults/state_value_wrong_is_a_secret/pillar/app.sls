app:
  password: hunter2
