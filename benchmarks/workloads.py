"""What is measured: seeded inputs and hyper-parameters that every peer shares.

Inputs come from an integer hash of (seed, index), so that a peer in any language can make the same
numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
CALLS = 1000
"""Ops in one timed step of D1 and D2."""
CHAINS = 50
"""Chains in one timed step of D3."""


def uniform(seed: int, shape: tuple[int, ...], low: float = -1.0, high: float = 1.0) -> Array:
    """Return reproducible float32 numbers in [low, high)."""
    with np.errstate(over="ignore"):
        h = np.arange(int(np.prod(shape)), dtype=np.uint32) * np.uint32(0x9E3779B1)
        h += np.uint32((seed * 0x85EBCA6B + 1) & 0xFFFFFFFF)
        h ^= h >> np.uint32(16)
        h *= np.uint32(0x7FEB352D)
        h ^= h >> np.uint32(15)
        h *= np.uint32(0x846CA68B)
        h ^= h >> np.uint32(16)
    unit = (h >> np.uint32(8)).astype(np.float32) / np.float32(1 << 24)
    return (np.float32(low) + np.float32(high - low) * unit).reshape(shape).astype(np.float32)


def classes(seed: int, count: int, depth: int) -> Array:
    """Return reproducible class numbers."""
    return (uniform(seed, (count,), 0, 1).astype(np.float64) * depth).astype(np.int32)


def weight(seed: int, shape: tuple[int, ...], fan_in: int) -> Array:
    """Return weights scaled for layers with relu (He et al., 2015)."""
    bound = float(np.sqrt(6.0 / fan_in))
    return uniform(seed, shape, -bound, bound)


class Training(NamedTuple):
    """One network: inputs, labels, learning rate and initial weights."""

    x: Array
    labels: Array
    learning_rate: float
    weights: dict[str, Array]


def mlp() -> Training:
    """W1: 784-256-128-10, batch 64."""
    sizes = [(784, 256), (256, 128), (128, 10)]
    weights = {f"w{i}": weight(3 + i, shape, shape[0]) for i, shape in enumerate(sizes)}
    weights |= {f"b{i}": np.zeros(shape[1], np.float32) for i, shape in enumerate(sizes)}
    return Training(uniform(1, (64, 784), 0, 1), classes(2, 64, 10), 0.1, weights)


def convnet() -> Training:
    """W2: two 3x3 convolutions with 2x2 max pools and a dense layer on 28x28 images, batch 64; NHWC, HWIO."""
    weights = {
        "k0": weight(13, (3, 3, 1, 16), 9),
        "c0": np.zeros(16, np.float32),
        "k1": weight(14, (3, 3, 16, 32), 144),
        "c1": np.zeros(32, np.float32),
        "w": weight(15, (1568, 10), 1568),
        "b": np.zeros(10, np.float32),
    }
    return Training(uniform(11, (64, 28, 28, 1), 0, 1), classes(12, 64, 10), 0.05, weights)


def pair() -> tuple[Array, Array]:
    """D1 to D3: two tensors of four elements."""
    return np.array([1, 2, 3, 4], np.float32) * np.float32(0.25), np.array([4, 3, 2, 1], np.float32)
