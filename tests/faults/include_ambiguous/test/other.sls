nginx-test:
  pkg.installed: []
