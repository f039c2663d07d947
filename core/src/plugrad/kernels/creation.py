"""Kernels that make tensors. Those without inputs get the backend in their place."""

import math

from plugrad.dtype import DType, Scalar, float32
from plugrad.errors import ArgumentValueError
from plugrad.kernel import Shaped, Spec, kernel
from plugrad.shapes import Shape, shape_of


@kernel("Fill")
def fill(*, shape: Shape, value: Scalar, dtype: DType) -> Spec:
    """Return `value` everywhere."""
    return Shaped(shape_of(shape), dtype)


@kernel("ZerosLike", is_elementwise=True)
def zeros_like(x: Spec) -> Spec:
    """Return 0 in the shape and dtype of x."""
    return Shaped(x.shape, x.dtype)


@kernel("OnesLike", is_elementwise=True)
def ones_like(x: Spec) -> Spec:
    """Return 1 in the shape and dtype of x."""
    return Shaped(x.shape, x.dtype)


@kernel("Range")
def range(*, start: float, stop: float, step: float, dtype: DType) -> Spec:
    """Return start, start + step, … without stop."""
    if step == 0:
        raise ArgumentValueError("Range: step=0 never arrives; it must not be 0")
    return Shaped((max(0, math.ceil((stop - start) / step)),), dtype)


@kernel("LinSpace")
def linspace(*, start: float, stop: float, num: int, dtype: DType = float32) -> Spec:
    """Return `num` values from start to stop, both included, at equal distances."""
    if num < 0:
        raise ArgumentValueError(f"LinSpace: num={num} must be 0 or more")
    return Shaped((num,), dtype)
