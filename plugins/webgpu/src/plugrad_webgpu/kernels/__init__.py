"""The kernels, one module per family; importing this package declares them all."""

from plugrad_webgpu.declare import table
from plugrad_webgpu.kernels import (
    activation,
    binary,
    bitwise,
    convolution,
    creation,
    indexing,
    linalg,
    movement,
    normalization,
    pixels,
    pooling,
    ragged,
    reduction,
    sparse,
    string,
    unary,
)

__all__ = [
    "activation",
    "binary",
    "bitwise",
    "convolution",
    "creation",
    "indexing",
    "linalg",
    "movement",
    "normalization",
    "pixels",
    "pooling",
    "ragged",
    "reduction",
    "sparse",
    "string",
    "table",
    "unary",
]
