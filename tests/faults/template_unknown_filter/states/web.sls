nginx:
  pkg.installed:
    - version: {{ '1.2' | uper }}
