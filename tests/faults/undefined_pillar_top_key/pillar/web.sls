include:
  - base
