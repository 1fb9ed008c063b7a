base:
  '*':
    - web
dev:
  '*':
    - other
test:
  '*':
    - other
