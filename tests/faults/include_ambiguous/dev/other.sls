nginx-dev:
  pkg.installed: []
