nginx:
  service.running: []
