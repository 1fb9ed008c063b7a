a: r
b: r
