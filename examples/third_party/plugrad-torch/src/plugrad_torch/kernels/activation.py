"""Activations. Those that plugrad composes of other kernels, such as Selu, are left to it."""

import math

import torch
from torch.nn import functional

from plugrad.kernels import activation
from plugrad_torch.declare import Array, update

GELU_SLOPE = 2 * math.sqrt(2 / math.pi)
GELU_CUBIC = 0.044715


def gelu(x: Array) -> Array:
    """Return x P(X <= x), where erfc keeps the digits far below 0; the product of infinity and 0 is 0."""
    y = x * torch.special.erfc(x * -math.sqrt(0.5)) / 2
    return torch.where(x == -math.inf, 0.0, y)


def gelu_gradient(dy: Array, x: Array) -> Array:
    """Return dy (P(X <= x) + x p(x))."""
    below = torch.special.erfc(x * -math.sqrt(0.5)) / 2
    m = torch.clamp(x, -40, 40)
    return dy * (below + m * torch.exp(m * m / -2) / math.sqrt(2 * math.pi))


def gelu_tanh(x: Array) -> Array:
    """Return x times the sigmoid of 2 u, which does not cancel as 1 + tanh(u) does."""
    x = torch.clamp(x, min=-40)
    return x / (1 + torch.exp(-GELU_SLOPE * (x + GELU_CUBIC * x**3)))


def gelu_tanh_gradient(dy: Array, x: Array) -> Array:
    """Return dy (s + x s'), where s is the sigmoid of 2 u."""
    x = torch.clamp(x, -40, 40)
    s = torch.sigmoid(GELU_SLOPE * (x + GELU_CUBIC * x**3))
    other = torch.sigmoid(-GELU_SLOPE * (x + GELU_CUBIC * x**3))
    return dy * (s + x * GELU_SLOPE * (1 + 3 * GELU_CUBIC * x * x) * s * other)


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x))."""
    return torch.sigmoid(x) if not x.is_complex() else 1 / (1 + torch.exp(-x))


def softplus(x: Array) -> Array:
    """Return log(1 + exp(x)) in a form in which exp does not overflow."""
    return torch.clamp(x, min=0) + torch.log1p(torch.exp(-torch.abs(x)))


update(
    {
        activation.relu: lambda x: torch.clamp(x, min=0),
        activation.relu6: lambda x: torch.clamp(x, 0, 6) + 0,
        activation.elu: functional.elu,
        activation.sigmoid: sigmoid,
        activation.softplus: softplus,
        activation.gelu: gelu,
        activation.gelu_tanh: gelu_tanh,
        activation.gelu_gradient: gelu_gradient,
        activation.gelu_tanh_gradient: gelu_tanh_gradient,
    }
)
