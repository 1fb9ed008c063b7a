db:
  password: !!int hunter2
