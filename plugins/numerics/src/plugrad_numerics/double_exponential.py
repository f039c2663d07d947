"""Integrals by the double exponential formula (Takahasi and Mori, 1974): equal steps after a change of the variable.

Integrals of smooth functions from 0 to 1 are those of Gauss and Legendre, which need fewer nodes.

Nodes and weights are constants, so integrals have gradients for whatever else is in the integrand. They are tensors
along a new last axis, which the caller's sum removes.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

import plugrad

if TYPE_CHECKING:
    from plugrad import Tensor

NODE_COUNT = 129
"""How many nodes an integral has: enough for some 1e-12."""
UNIT_NODE_COUNT = 48
"""How many nodes an integral from 0 to 1 has: enough for some 1e-14 of ``exp(-40 * s)`` or a whole normal density."""


def exponential_nodes_and_weights(like: Tensor) -> tuple[Tensor, Tensor]:
    """Return s and weights, so that ``sum(weights * f(s))`` is the integral of ``exp(-s) * f(s)`` from 0 on."""
    return _as_tensors("exponential", like)


def half_line_nodes_and_weights(like: Tensor) -> tuple[Tensor, Tensor]:
    """Return t and weights, so that ``sum(weights * f(t))`` is the integral of ``f(t) / t`` from 0 on."""
    return _as_tensors("half line", like)


def line_nodes_and_weights(like: Tensor) -> tuple[Tensor, Tensor]:
    """Return z and weights, so that ``sum(weights * f(z))`` is the integral of ``f(z)`` over all real numbers."""
    return _as_tensors("line", like)


def unit_nodes_and_weights(like: Tensor) -> tuple[Tensor, Tensor]:
    """Return s and weights, so that ``sum(weights * f(s))`` is the integral of a smooth f from 0 to 1."""
    return _as_tensors("unit", like)


def _as_tensors(interval: str, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return the nodes and weights of an interval as tensors of the dtype and on the device of another one."""
    z, weights = (
        plugrad.asarray(values, dtype=like.dtype, device=like.device)
        for values in _nodes_and_weights(interval)
    )
    return z, weights


@cache
def _nodes_and_weights(interval: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the nodes and weights of an interval. No node exceeds 1e18, whose square is a float32."""
    if interval == "unit":
        x, weights = np.polynomial.legendre.leggauss(UNIT_NODE_COUNT)
        return (x + 1) / 2, weights / 2
    if interval == "exponential":
        t, step = np.linspace(-3.5, 4.1, NODE_COUNT, retstep=True)
        s = np.exp(t - np.exp(-t))
        return s, step * s * (1 + np.exp(-t)) * np.exp(-s)
    if interval == "half line":
        t, step = np.linspace(-3.85, 2.8, NODE_COUNT, retstep=True)
        return np.exp(np.pi / 2 * np.sinh(t)), step * np.pi / 2 * np.cosh(t)
    t, step = np.linspace(-3.97, 3.97, NODE_COUNT, retstep=True)
    inner = np.pi / 2 * np.sinh(t)
    return np.sinh(inner), step * np.pi / 2 * np.cosh(t) * np.cosh(inner)
