resources:
  ssh:
    hosts:
      web-02:
        hots: 192.0.2.7
