%include common
nginx:
  pkg.installed: []
