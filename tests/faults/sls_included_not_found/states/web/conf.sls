include:
  - .service
  - common.users
