nginx:
  pkg.installed:
    - version: ]
