base:
  '10.0.0.0/33':
    - match: ipcidr
    - web
