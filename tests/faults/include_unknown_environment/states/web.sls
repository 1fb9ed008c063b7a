include:
  - prod: common
