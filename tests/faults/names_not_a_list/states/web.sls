nginx:
  pkg.installed:
    - names: nginx
