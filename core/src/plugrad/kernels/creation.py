"""Kernels that make tensors. Those without inputs get the backend in their place."""

from math import ceil, isfinite

from plugrad.contract.kernel import accepted, kernel
from plugrad.errors import ArgumentValueError, DTypeError
from plugrad.types.dtype import BOOL, NUMERIC, DType, Scalar, float32, holds, int64, string
from plugrad.types.shapes import shape_of
from plugrad.types.specs import Shape, Shaped, Spec


@kernel("Fill")
def fill(*, shape: Shape, value: Scalar | str, dtype: DType) -> Spec:
    """Return `value` everywhere."""
    if isinstance(value, str) != (dtype is string):
        raise DTypeError(f"Fill: value={value!r} is no {dtype}; strings are filled with a str")
    if not holds(dtype, value):
        raise ArgumentValueError(f"Fill: value={value!r} does not fit {dtype}")
    return Shaped(shape_of(shape), dtype)


@kernel("ZerosLike", is_elementwise=True, accepts=NUMERIC | BOOL)
def zeros_like(x: Spec) -> Spec:
    """Return 0 in the shape and dtype of x."""
    return Shaped(x.shape, accepted("ZerosLike", x, NUMERIC | BOOL))


@kernel("OnesLike", is_elementwise=True, accepts=NUMERIC | BOOL)
def ones_like(x: Spec) -> Spec:
    """Return 1 in the shape and dtype of x."""
    return Shaped(x.shape, accepted("OnesLike", x, NUMERIC | BOOL))


@kernel("Range")
def range(*, start: float, stop: float, step: float, dtype: DType) -> Spec:
    """Return start, start + step, … without stop."""
    if step == 0:
        raise ArgumentValueError("Range: step=0 never arrives; it must not be 0")
    for number in (start, stop, step):
        if not isfinite(number) or (isinstance(number, int) and not holds(int64, number)):
            raise ArgumentValueError(
                f"Range: {number} must be finite, and a whole number fit int64"
            )
    return Shaped((max(0, ceil((stop - start) / step)),), dtype)


@kernel("LinSpace")
def linspace(*, start: complex, stop: complex, num: int, dtype: DType = float32) -> Spec:
    """Return `num` values from start to stop, both included, at equal distances."""
    for end in (start, stop):
        if not holds(dtype, end):
            raise ArgumentValueError(f"LinSpace: {end} does not fit {dtype}")
    if num < 0:
        raise ArgumentValueError(f"LinSpace: num={num} must be 0 or more")
    return Shaped((num,), dtype)
