base:
  '*':
    - wbe
