"""A line is fitted to points by gradient descent."""

import plugrad

plugrad.random.seed(0)
x = plugrad.random.uniform((100,), -1, 1)
y = 2 * x + 1 + 0.1 * plugrad.random.standard_normal((100,))
slope, height = plugrad.Variable(0.0), plugrad.Variable(0.0)
sgd = plugrad.optimizers.SGD(0.1)

for _ in range(200):
    sgd.minimize(lambda: plugrad.mean((slope * x + height - y) ** 2), [slope, height])
result = slope.item(), height.item()
