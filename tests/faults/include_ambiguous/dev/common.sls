git:
  pkg.installed: []
