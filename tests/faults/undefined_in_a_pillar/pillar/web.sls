include:
  - web_defaults
