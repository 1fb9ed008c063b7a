include:
  - ...common
