include:
  - a
