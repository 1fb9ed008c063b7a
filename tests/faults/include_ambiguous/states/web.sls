include:
  - _xenv: common
