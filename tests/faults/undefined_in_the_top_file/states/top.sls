base:
  '{{ grains.rolls }}':
    - web
