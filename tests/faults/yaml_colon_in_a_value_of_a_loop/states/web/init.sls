include:
  - web.sites
