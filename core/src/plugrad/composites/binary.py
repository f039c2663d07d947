"""Combinations of two or more tensors that other kernels compute."""

from functools import reduce

from plugrad.engine.composites import composite
from plugrad.kernels import binary
from plugrad.tensor.tensor import Tensor


@composite(binary.squared_difference)
def squared_difference(a: Tensor, b: Tensor) -> Tensor:
    """Return the square of the difference."""
    difference = binary.subtract(a, b)
    return binary.multiply(difference, difference)


@composite(binary.add_n)
def add_n(*inputs: Tensor) -> Tensor:
    """Return the sum of the inputs, added from the first to the last."""
    return reduce(binary.add, inputs)
