nginx:
  pkg.installed:
    - version: 1.2
      refresh: true
   - name: nginx
