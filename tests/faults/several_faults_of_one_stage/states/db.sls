postgres: [
