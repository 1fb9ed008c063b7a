nginx:
  pkg.installed:
    - refresh true
