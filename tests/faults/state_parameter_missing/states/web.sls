/etc/nginx/sites-enabled/app:
  file.symlink:
    - makedirs: true
/etc/app.key:
  file.decode:
    - checksum: sha256
