base:
  'frontends':
    - match: nodegroup
    - web
