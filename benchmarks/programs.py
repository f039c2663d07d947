"""Programs that nobody has tuned for, written once for plugrad, JAX and PyTorch: what `jitted.py` measures.

Each takes a namespace, and returns a function and the arrays of one call. The numbers are the same for all peers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float32]


class Namespace(NamedTuple):
    """A framework's functions with the names of NumPy, and its transformations."""

    xp: Any
    erf: Callable[[Any], Any]
    sigmoid: Callable[[Any], Any]
    rsqrt: Callable[[Any], Any]
    scan: Callable[..., Any]
    """A loop: takes a function, the initial carry, slices or None, and the number of iterations."""
    grads: Callable[..., Any]
    """Makes a gradient function: takes a function and how many arguments to differentiate for, by default all."""


def random_array(seed: int, *shape: int, scale: float = 1.0) -> Array:
    """Return a reproducible array of normal numbers, multiplied by `scale`."""
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)


def elementwise_ops(framework: Namespace) -> tuple[Callable[..., Any], list[Array]]:
    """Ten simple elementwise ops on a million numbers."""
    xp = framework.xp

    def function(x: Any) -> Any:
        y = xp.abs(x) * 2.0 + 1.0
        y = xp.sqrt(y) - x
        y = xp.maximum(y, framework.rsqrt(y)) * x
        y = y + x
        return y * y * 0.1 - 1.0

    return function, [random_array(0, 1_000_000)]


def ode_gradient(framework: Namespace) -> tuple[Callable[..., Any], list[Array]]:
    """Integrate an ODE of 32 numbers for a thousand steps, with the gradient."""
    xp = framework.xp

    def loss(weights: Any, start: Any) -> Any:
        last, _ = framework.scan(
            lambda x, _: (x + 0.01 * xp.tanh(x @ weights), None), start, None, 1000
        )
        return xp.sum(last * last)

    start = np.linspace(-1, 1, 32, dtype=np.float32)
    return framework.grads(loss), [random_array(0, 32, 32, scale=0.1), start]


def gru(framework: Namespace) -> tuple[Callable[..., Any], list[Array]]:
    """Run a GRU of 64 units for a hundred steps on a batch of 32, with the gradients."""
    xp = framework.xp

    def loss(w: Any, u: Any, b: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            given, kept = x @ w + b, h @ u
            z = framework.sigmoid(given[:, :64] + kept[:, :64])
            r = framework.sigmoid(given[:, 64:128] + kept[:, 64:128])
            new = xp.tanh(given[:, 128:] + r * kept[:, 128:])
            h = z * h + (1 - z) * new
            return h, h

        _, hs = framework.scan(step, xs[0, :, :1] * xp.zeros((1, 64)), xs, 100)
        return xp.mean(hs * hs)

    arrays = [
        random_array(1, 32, 192, scale=0.1),
        random_array(2, 64, 192, scale=0.1),
        random_array(3, 192),
    ]
    return framework.grads(loss, 3), [*arrays, random_array(4, 100, 32, 32)]


def lstm(framework: Namespace) -> tuple[Callable[..., Any], list[Array]]:
    """Run an LSTM of 64 units for a hundred steps on a batch of 32, with the gradients."""
    xp = framework.xp

    def loss(w: Any, u: Any, b: Any, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            h, c = carry
            gates = x @ w + h @ u + b
            i, f, o = (framework.sigmoid(gates[:, 64 * k : 64 * k + 64]) for k in range(3))
            c = f * c + i * xp.tanh(gates[:, 192:])
            h = o * xp.tanh(c)
            return (h, c), h

        zeros = xs[0, :, :1] * xp.zeros((1, 64))
        _, hs = framework.scan(step, (zeros, zeros), xs, 100)
        return xp.mean(hs * hs)

    arrays = [
        random_array(1, 32, 256, scale=0.1),
        random_array(2, 64, 256, scale=0.1),
        random_array(3, 256),
    ]
    return framework.grads(loss, 3), [*arrays, random_array(4, 100, 32, 32)]


def nbody_forces(framework: Namespace) -> tuple[Callable[..., Any], list[Array]]:
    """Compute the forces between a thousand bodies as the gradient of their energy."""
    xp = framework.xp

    def energy(places: Any, masses: Any) -> Any:
        between = places[:, None, :] - places[None, :, :]
        squares = xp.sum(between * between, axis=-1) + 0.01
        return xp.sum(masses[:, None] * masses[None, :] * framework.rsqrt(squares))

    return framework.grads(energy, 1), [random_array(0, 1000, 3), np.abs(random_array(1, 1000))]


def option_prices(framework: Namespace) -> tuple[Callable[..., Any], list[Array]]:
    """Compute the Black-Scholes prices of a million options, and their derivatives."""
    xp = framework.xp

    def price(spot: Any, strike: Any, years: Any) -> Any:
        spread = 0.2 * xp.sqrt(years)
        upper = (xp.log(spot / strike) + 0.03 * years) / spread
        first, second = (0.5 + 0.5 * framework.erf(d * 0.5**0.5) for d in (upper, upper - spread))
        return xp.sum(spot * first - strike * xp.exp(-0.01 * years) * second)

    rng = np.random.default_rng(0)
    limits = ((80, 120), (80, 120), (0.1, 2))
    return framework.grads(price), [
        rng.uniform(*each, 1_000_000).astype(np.float32) for each in limits
    ]


def image_normalization(framework: Namespace) -> tuple[Callable[..., Any], list[Array]]:
    """Normalize the channels of a batch of images."""
    mean, deviation = np.array([0.4, 0.5, 0.6], "f4"), np.array([0.2, 0.2, 0.3], "f4")
    return lambda x, m, d: (x - m) / d, [random_array(0, 16, 128, 128, 3), mean, deviation]


def energy_of(framework: Namespace) -> Callable[..., Any]:
    """Return the negative log density of a Bayesian logistic regression."""
    xp = framework.xp
    return lambda q, x: xp.sum(xp.log(1 + xp.exp(x @ q))) + 0.5 * xp.sum(q * q)


def monte_carlo(framework: Namespace) -> tuple[Callable[..., Any], list[Array]]:
    """Take a step of Hamiltonian Monte Carlo: twenty leapfrog steps of 16 numbers, with 128 observations."""
    force = framework.grads(energy_of(framework), 1)

    def step(q: Any, p: Any, x: Any) -> Any:
        def leapfrog_step(carry: Any, _: None) -> Any:
            q, p = carry
            p = p - 0.005 * force(q, x)
            q = q + 0.01 * p
            return (q, p - 0.005 * force(q, x)), None

        return framework.scan(leapfrog_step, (q, p), None, 20)[0]

    return step, [random_array(0, 16), random_array(1, 16), random_array(2, 128, 16)]


def hessian_vector_product(framework: Namespace) -> tuple[Callable[..., Any], list[Array]]:
    """Compute a Hessian-vector product of 1,024 weights."""
    xp = framework.xp

    def loss(w: Any, x: Any) -> Any:
        return xp.mean(xp.tanh(xp.tanh(x @ w) @ w))

    gradient = framework.grads(loss, 1)
    product = framework.grads(lambda w, v, x: xp.sum(gradient(w, x) * v), 1)
    return product, [
        random_array(0, 32, 32, scale=0.2),
        random_array(1, 32, 32),
        random_array(2, 64, 32),
    ]


def mlp_training_step(framework: Namespace) -> tuple[Callable[..., Any], list[Array]]:
    """Take a training step of twenty layers of 32 units, with Adam written out."""
    xp = framework.xp
    count = 20

    def loss(*arguments: Any) -> Any:
        *weights, x = arguments
        for w in weights:
            x = xp.tanh(x @ w)
        return xp.mean(x * x)

    gradients = framework.grads(loss, count)

    def step(*arguments: Any) -> Any:
        weights, first, second = (arguments[k * count : (k + 1) * count] for k in range(3))
        found = gradients(*weights, arguments[-1])
        first = [0.9 * m + 0.1 * g for m, g in zip(first, found, strict=True)]
        second = [0.999 * v + 0.001 * g * g for v, g in zip(second, found, strict=True)]
        moved = zip(weights, first, second, strict=True)
        return [w - 0.001 * m / (xp.sqrt(v) + 1e-7) for w, m, v in moved], first, second

    weights = [random_array(k, 32, 32, scale=0.2) for k in range(count)]
    zeros = [np.zeros((32, 32), np.float32)] * count
    return step, [*weights, *zeros, *zeros, random_array(99, 64, 32)]


PROGRAMS = {
    "ten": elementwise_ops,
    "ode": ode_gradient,
    "GRU": gru,
    "LSTM": lstm,
    "bodies": nbody_forces,
    "options": option_prices,
    "images": image_normalization,
    "monte carlo": monte_carlo,
    "hessian": hessian_vector_product,
    "layers": mlp_training_step,
}


# --- the frameworks --------------------------------------------------------------------------------


def plugrad_namespace() -> Namespace:
    """Return the functions of plugrad."""
    import plugrad

    def scan(function: Any, init: Any, xs: Any, length: int) -> Any:
        return plugrad.scan(function, init, xs, length=length)

    def grads(function: Any, argument_count: int | None = None) -> Any:
        if argument_count == 1:
            return plugrad.grad(function)
        if argument_count is None:
            return plugrad.grads(function)
        return plugrad.grad(function, tuple(range(argument_count)))

    return Namespace(plugrad, plugrad.erf, plugrad.sigmoid, plugrad.rsqrt, scan, grads)


def jax_namespace() -> Namespace:
    """Return the functions of JAX."""
    import jax

    def grads(function: Any, argument_count: int | None = None) -> Any:
        if argument_count == 1:
            return jax.grad(function)

        def call(*args: Any) -> Any:
            return jax.grad(function, tuple(range(argument_count or len(args))))(*args)

        return call

    return Namespace(
        jax.numpy, jax.scipy.special.erf, jax.nn.sigmoid, jax.lax.rsqrt, jax.lax.scan, grads
    )


def torch_namespace() -> Namespace:
    """Return the functions of PyTorch."""
    import torch

    def scan(function: Any, init: Any, xs: Any, length: int) -> Any:
        carry, results = init, []
        for i in range(length):
            carry, result = function(carry, None if xs is None else xs[i])
            results.append(result)
        return carry, None if results[0] is None else torch.stack(results)

    def grads(function: Any, argument_count: int | None = None) -> Any:
        def call(*args: Any) -> Any:
            is_inner = any(x.requires_grad for x in args)
            chosen = len(args) if argument_count is None else argument_count
            leaves = [x if x.requires_grad else x.detach().requires_grad_() for x in args[:chosen]]
            value = function(*leaves, *args[chosen:])
            found = torch.autograd.grad(value, leaves, create_graph=is_inner)
            return found[0] if argument_count == 1 else found

        return call

    return Namespace(torch, torch.erf, torch.sigmoid, torch.rsqrt, scan, grads)
