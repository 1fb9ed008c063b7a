base:
  'nomatch':
    - t
