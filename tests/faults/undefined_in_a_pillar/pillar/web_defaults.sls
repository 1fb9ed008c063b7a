nginx:
  workers: {{ grains.num_cpu }}
