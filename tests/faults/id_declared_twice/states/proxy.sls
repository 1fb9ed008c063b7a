squid:
  pkg.installed: []
nginx:
  service.running: []
