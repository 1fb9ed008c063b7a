nginx:
  pkg.instaled: []
