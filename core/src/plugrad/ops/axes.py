"""Calls of kernels along an axis, which is counted from the front and validated once for each shape and dtype."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from plugrad.types.dtype import as_dtype
from plugrad.types.shapes import normalize_axis
from plugrad.types.specs import Shaped

if TYPE_CHECKING:
    from plugrad.contract.annotations import AxisOfFirstInput
    from plugrad.contract.kernel import Kernel, ValidatedAttributes
    from plugrad.tensor.tensor import Tensor
    from plugrad.types.specs import Shape


def run_along_axis(
    kernel: Kernel[..., Tensor], x: Tensor, op: str, axis: int, /, **attrs: Any
) -> Tensor:
    """Run a kernel of one tensor along an axis, its first attribute; see `with_attributes`.

    Raises:
        AxisError: the axis is out of range; the message begins with `op`.
    """
    array = x.array
    # what `axis_attributes` does, without passing its arguments on
    cached = _cached_axis_attributes if type(axis) is int else _cached_axis_attributes.__wrapped__
    return kernel.call(x, cached(kernel, op, array.shape, array.dtype, axis, **attrs))


def axis_attributes(
    kernel: Kernel[..., Any], op: str, shape: Shape, dtype: object, axis: int, /, **attrs: Any
) -> ValidatedAttributes:
    """Return the validated attributes for one input of this shape and dtype and an axis that may be negative."""
    # True and 1.0 would be found in the cache, as 1
    cached = _cached_axis_attributes if type(axis) is int else _cached_axis_attributes.__wrapped__
    return cached(kernel, op, shape, dtype, axis, **attrs)


@lru_cache(maxsize=4096)
def _cached_axis_attributes(
    kernel: Kernel[..., Any], op: str, shape: Shape, dtype: object, axis: int, /, **attrs: Any
) -> ValidatedAttributes:
    attrs[kernel.attributes[0]] = normalize_kernel_axis(kernel, len(shape), axis, op)
    return kernel.validate_attributes(Shaped(shape, as_dtype(dtype)), **attrs)


def normalize_kernel_axis(kernel: Kernel[..., Any], rank: int, axis: int, op: str) -> int:
    """Return an axis, the first attribute of a kernel, counted from the front, for a first input with `rank` axes.

    Raises:
        AxisError: it is out of range; the message begins with `op`.
    """
    kind: AxisOfFirstInput = kernel.annotations[kernel.attributes[0]].__metadata__[0]
    return normalize_axis(axis, rank + kind.extra_axes, name=f"{op}: axis")
