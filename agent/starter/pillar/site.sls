site:
  root: /tmp/zagent-demo/site
  pages:
    index: "<h1>It works</h1>"
    about: "<p>Written once, the same on every host</p>"
