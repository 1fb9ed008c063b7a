include:
  - common: key
