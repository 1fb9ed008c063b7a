nginx:
  pkg.installed: []
  service.running:
    - require:
      - pkg.installed: nginx
