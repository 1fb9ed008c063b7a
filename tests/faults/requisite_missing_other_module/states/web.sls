nginx:
  pkg.installed: []
  service.running:
    - watch:
      - file: nginx
