/etc/nginx/nginx.conf:
  file.managed:
    - contents: workers {{ 4 * }}
