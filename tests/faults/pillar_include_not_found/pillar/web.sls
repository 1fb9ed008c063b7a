include:
  - comon
