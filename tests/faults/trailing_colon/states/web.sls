nginx:
  pkg.installed:
