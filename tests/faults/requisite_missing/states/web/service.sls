nginx:
  pkg.installed: []
  service.running:
    - require:
      - pkg: ngnix
    - watch:
      - file: /etc/nginx/nginx.conf
