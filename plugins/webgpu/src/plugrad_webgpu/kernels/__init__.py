"""The kernels, one module per family; importing this package declares them all."""

from plugrad_webgpu.declare import table
from plugrad_webgpu.kernels import (
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
