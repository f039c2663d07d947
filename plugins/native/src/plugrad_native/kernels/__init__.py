"""The implementations, one module per family; importing a module adds them to the table."""

from plugrad_native.declare import table
from plugrad_native.kernels import convolution, convolution3d, depthwise, pooling, pooling3d

__all__ = ["convolution", "convolution3d", "depthwise", "pooling", "pooling3d", "table"]
