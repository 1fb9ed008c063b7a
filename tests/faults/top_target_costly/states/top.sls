base:
  'g29':
    - match: nodegroup
    - web
