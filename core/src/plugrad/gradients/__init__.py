"""The calculus: one rule per differentiable input of each kernel, one module per family.

See `plugrad.gradient` for how a rule names what it needs.
"""

from plugrad.gradients import (
    binary,
    convolution,
    creation,
    indexing,
    linalg,
    movement,
    normalization,
    pooling,
    reduction,
    unary,
)

__all__ = [
    "binary",
    "convolution",
    "creation",
    "indexing",
    "linalg",
    "movement",
    "normalization",
    "pooling",
    "reduction",
    "unary",
]
