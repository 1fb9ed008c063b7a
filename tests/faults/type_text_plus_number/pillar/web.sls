token: hunter2
