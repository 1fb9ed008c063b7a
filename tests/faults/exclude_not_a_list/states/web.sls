exclude: nginx
