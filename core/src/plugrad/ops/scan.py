"""Functions that accumulate along an axis: running sums and products."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.errors import ArgumentValueError, AxisError
from plugrad.kernels import movement, scan
from plugrad.ops.arguments import as_supported_dtype
from plugrad.ops.attributes import check_flag
from plugrad.ops.axes import run_along_axis
from plugrad.ops.reduction import as_summable
from plugrad.types.arguments import explain_wrong_calls
from plugrad.types.shapes import normalize_axis

if TYPE_CHECKING:
    from plugrad.contract.kernel import Kernel
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.dtype import DTypeLike


@explain_wrong_calls
def cumulative_sum(
    x: TensorLike,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
    exclusive: bool = False,
    reverse: bool = False,
) -> Tensor:
    """The sums of all elements up to each one along an axis, in the shape of x.

    >>> plugrad.cumulative_sum([1, 2, 3])
    tensor([1, 3, 6], dtype=int32)
    >>> plugrad.cumulative_sum([1, 2, 3], include_initial=True)
    tensor([0, 1, 3, 6], dtype=int32)
    >>> plugrad.cumulative_sum([1, 2, 3], exclusive=True, reverse=True)
    tensor([5, 3, 0], dtype=int32)

    Args:
        x: a tensor with at least one axis.
        axis: the axis along which to add; it may be left out for a 1-d tensor.
        dtype: the dtype in which to add, and of the result: by default that of x, but int32 for
            bools and small signed integers, and uint32 for small unsigned ones.
        include_initial: whether the result begins with one more element, the sum of no elements,
            which is 0.
        exclusive: whether each sum leaves out the element itself.
        reverse: whether to start at the end; with `include_initial`, the additional element is then
            the last one.

    Raises:
        AxisError: the axis is out of range, or is missing.
        DTypeError: x holds strings, or `dtype` is not numeric.
        ArgumentError: a flag is not a bool.
        ArgumentValueError: both `exclusive` and `include_initial` are True.
    """
    return _run_scan(
        scan.cumsum, "cumulative_sum", x, axis, dtype, include_initial, exclusive, reverse
    )


@explain_wrong_calls
def cumulative_prod(
    x: TensorLike,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
    exclusive: bool = False,
    reverse: bool = False,
) -> Tensor:
    """The products of all elements up to each one along an axis, in the shape of x.

    >>> plugrad.cumulative_prod([[2.0, 3.0, 4.0], [5.0, 6.0, 7.0]], axis=1)
    tensor([[  2.,   6.,  24.],
            [  5.,  30., 210.]], dtype=float32)

    Arguments are as for `cumulative_sum`. The product of no elements is 1.

    Raises:
        AxisError, DTypeError, ArgumentError, ArgumentValueError: as for `cumulative_sum`.
    """
    return _run_scan(
        scan.cumprod, "cumulative_prod", x, axis, dtype, include_initial, exclusive, reverse
    )


def _run_scan(
    kernel: Kernel[..., Tensor],
    op: str,
    x: TensorLike,
    axis: int | None,
    dtype: DTypeLike | None,
    include_initial: bool,
    exclusive: bool,
    reverse: bool,
) -> Tensor:
    """Check the arguments that both ops share, then run the kernel; put the initial value in front if asked."""
    x = as_supported_dtype(as_summable(x, op, dtype), kernel, op)
    if axis is None:
        if x.ndim != 1:
            raise AxisError(
                f"{op}: axis is needed for a tensor with {x.ndim} axes (shape {x.shape})"
            )
        axis = 0
    if exclusive is not False:
        exclusive = check_flag(exclusive, op, "exclusive")
    if include_initial is not False and check_flag(include_initial, op, "include_initial"):
        axis = normalize_axis(axis, x.ndim, name=f"{op}: axis")
        if exclusive:
            raise ArgumentValueError(
                f"{op}: exclusive=True starts with the initial value already; leave include_initial out"
            )
        # Room for one more element: an exclusive scan leaves the last one out, whatever it holds.
        room = [(0, 0)] * x.ndim
        room[axis] = (1, 0) if reverse else (0, 1)
        x = movement.pad(x, paddings=tuple(room), constant_value=0)
        exclusive = True
    if reverse is not False:
        reverse = check_flag(reverse, op, "reverse")
    return run_along_axis(kernel, x, op, axis, exclusive=exclusive, reverse=reverse)
