nginx:
  pkg.installed:
    - refresh: true
  service.running
apache:
  pkg.removed: []
