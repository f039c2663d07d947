"""The implementations, one module per family; importing a module declares into the table."""

from plugrad_wasm.declare import table
from plugrad_wasm.kernels import (
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
