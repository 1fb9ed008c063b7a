nginx:
  pkg.installed: []
apache:
  pkg.removed: []
nginx:
  service.running: []
