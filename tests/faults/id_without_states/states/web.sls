nginx:
  - pkg.installed
apache:
