include:
  - b
