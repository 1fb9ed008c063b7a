nginx:
  pkg.installed: []
  service.running:
    - require:
      - pkg: nginx
        file: /etc/nginx
      - [nginx]
