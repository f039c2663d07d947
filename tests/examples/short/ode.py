"""The parameters of a differential equation are fitted to its solution."""

import plugrad
from plugrad_numerics.integrate import odeint

times = plugrad.linspace(0, 4, 9)
measured = 3 / (1 + 29 * plugrad.exp(-1.5 * times))
rate, limit = plugrad.Variable(1.0), plugrad.Variable(2.0)
adam = plugrad.optimizers.Adam(0.1)


def growth(y, t, rate, limit):
    return rate * y * (1 - y / limit)


def loss():
    return plugrad.mean((odeint(growth, 0.1, times, rate, limit, rtol=1e-4) - measured) ** 2)


step = plugrad.jit(lambda: adam.minimize(loss, [rate, limit]))
for _ in range(60):
    step()
result = rate.item(), limit.item()
