app:
  token: hunter2-token
