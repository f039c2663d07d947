"""Kernels that create tensors. Implementations of those without inputs receive the backend in their place.

Args:
    x: a tensor of any shape.
    start: the first value.
    dtype: the dtype of the result.
"""

from math import ceil, isfinite

from plugrad.contract.kernel import kernel
from plugrad.errors import ArgumentValueError, DTypeError
from plugrad.types.dtype import BOOL, NUMERIC, DType, Scalar, can_hold, float32, int64, string
from plugrad.types.specs import Shape, Shaped, Spec


@kernel("Fill")
def fill(*, shape: Shape, value: Scalar | str, dtype: DType) -> Spec:
    """Return a tensor that holds `value` everywhere.

    Args:
        shape: the shape of the result.
        value: what it holds, which must fit the dtype; a str for a string tensor.

    Returns:
        a tensor of the shape and the dtype.
    """
    if isinstance(value, str) != (dtype is string):
        raise DTypeError(
            f"Fill: value={value!r} is not a {dtype}; a string tensor is filled with a str"
        )
    if not can_hold(dtype, value):
        raise ArgumentValueError(f"value={value!r} does not fit {dtype}")
    return Shaped(shape, dtype)


@kernel("ZerosLike", is_elementwise=True, accepts=NUMERIC | BOOL)
def zeros_like(x: Spec) -> Spec:
    """Return zeros in the shape and dtype of x.

    Returns:
        a tensor of the shape and the dtype of x.
    """
    return Shaped(x.shape, x.dtype)


@kernel("OnesLike", is_elementwise=True, accepts=NUMERIC | BOOL)
def ones_like(x: Spec) -> Spec:
    """Return ones in the shape and dtype of x.

    Returns:
        a tensor of the shape and the dtype of x.
    """
    return Shaped(x.shape, x.dtype)


@kernel("Range")
def range(*, start: float, stop: float, step: float, dtype: DType) -> Spec:
    """Return the values start, start + step, … up to stop, which is excluded.

    Args:
        stop: the end, which is not among the values.
        step: the difference between neighbouring values, positive or negative.

    Returns:
        a vector of ``max(0, ceil((stop - start) / step))`` elements of the dtype.
    """
    if step == 0:
        raise ArgumentValueError("step=0 never reaches stop; it must not be 0")
    for number in (start, stop, step):
        if not isfinite(number) or (isinstance(number, int) and not can_hold(int64, number)):
            raise ArgumentValueError(f"{number} must be finite, and an integer must fit int64")
    return Shaped((max(0, ceil((stop - start) / step)),), dtype)


@kernel("LinSpace")
def linspace(*, start: complex, stop: complex, num: int, dtype: DType = float32) -> Spec:
    """Return `num` evenly spaced values from start to stop, both included.

    Args:
        stop: the last value.
        num: the number of values, 0 or more; a single one is `start`.

    Returns:
        a vector of `num` elements of the dtype.
    """
    for end in (start, stop):
        if not can_hold(dtype, end):
            raise ArgumentValueError(f"{end} does not fit {dtype}")
    if num < 0:
        raise ArgumentValueError(f"num={num} must be 0 or more")
    return Shaped((num,), dtype)
