nginx:
  pkg.installed:
    - version: {{ pillar.nginx.version }
    - refresh: true
