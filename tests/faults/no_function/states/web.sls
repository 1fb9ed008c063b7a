nginx:
  pkg:
    - refresh: true
