include:
  - common
  - 12
  - [a]
