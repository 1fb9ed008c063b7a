#jinja2: {"block_start_string": "{{"}
nginx:
  pkg.installed: []
