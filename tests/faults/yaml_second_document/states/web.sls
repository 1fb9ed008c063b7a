nginx:
  pkg.installed: []
---
apache:
  pkg.removed: []
