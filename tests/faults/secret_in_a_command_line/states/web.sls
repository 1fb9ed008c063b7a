register:
  cmd.run:
    - name: register --token {{ pillar["app"]["token"] }}
