"""The kernels, one module per family; importing them declares them in `table`."""

from plugrad_cpu.declare import table
from plugrad_cpu.kernels import (
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
    "table",
    "unary",
]
