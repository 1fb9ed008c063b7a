nginx:
  pkg.installed:
    - {}
