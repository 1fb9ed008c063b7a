deploy:
  user.present:
    - gruops: [www-data]
    - shel: /bin/bash
    - colour: blue
