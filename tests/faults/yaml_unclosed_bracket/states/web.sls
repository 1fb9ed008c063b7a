nginx:
  pkg.installed:
    - pkgs: [nginx, nginx-common
apache:
  pkg.removed: []
