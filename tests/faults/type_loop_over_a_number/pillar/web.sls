sites: 3
