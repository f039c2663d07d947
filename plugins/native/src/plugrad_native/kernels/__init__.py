"""The implementations, one module per family; importing a module adds them to the table."""

from plugrad_native.declare import table
from plugrad_native.kernels import (
    activation,
    convolution,
    convolution3d,
    depthwise,
    fused,
    indexing,
    normalization,
    pooling,
    pooling3d,
    scan,
    scatter,
    sorting,
    unary,
)

__all__ = [
    "activation",
    "convolution",
    "convolution3d",
    "depthwise",
    "fused",
    "indexing",
    "normalization",
    "pooling",
    "pooling3d",
    "scan",
    "scatter",
    "sorting",
    "table",
    "unary",
]
