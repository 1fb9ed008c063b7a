{% set mode = 'u=rw' %}
configuration:
  file.managed:
    - names:
      - /etc/a.conf
      - /etc/b.conf
      - /etc/c.conf:
        - mode: '0600'
    - contents: hello
    - mode: {{ mode }}
