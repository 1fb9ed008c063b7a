x: q
y: q
l: [2]
