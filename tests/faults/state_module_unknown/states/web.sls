nginx:
  pgk.installed: []
apache:
  frobnicate.done: []
