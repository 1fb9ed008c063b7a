nginx:
  service.running:
    - enable
