empty: []
