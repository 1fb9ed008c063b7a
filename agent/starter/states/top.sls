base:
  '*':
    - welcome
  'kernel:Linux':
    - match: grain
    - site
