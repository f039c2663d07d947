"""The implementations, one module per family; importing a module declares into the table."""

from plugrad_wasm.declare import table
from plugrad_wasm.kernels import (
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
