"""Functions that accumulate along an axis: running sums and products."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.errors import ArgumentValueError, AxisError
from plugrad.kernels import movement, scan
from plugrad.ops.arguments import coerced
from plugrad.ops.attributes import flag
from plugrad.ops.reduction import summable
from plugrad.types.shapes import axis_of

if TYPE_CHECKING:
    from plugrad.contract.kernel import Kernel
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.dtype import DTypeLike


def cumulative_sum(
    x: TensorLike,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
    exclusive: bool = False,
    reverse: bool = False,
) -> Tensor:
    """The sum of the elements up to each one along an axis.

    >>> plugrad.cumulative_sum([1, 2, 3])
    tensor([1, 3, 6], dtype=int32)
    >>> plugrad.cumulative_sum([1, 2, 3], include_initial=True)
    tensor([0, 1, 3, 6], dtype=int32)
    >>> plugrad.cumulative_sum([1, 2, 3], exclusive=True, reverse=True)
    tensor([5, 3, 0], dtype=int32)

    Args:
        x: a tensor with at least one axis.
        axis: where to accumulate; it may be left out for a 1-d tensor.
        dtype: in what to add, by default the dtype of x; but bools and small integers are added as
            int32, or as uint32 if they are unsigned.
        include_initial: whether the sum of nothing, 0, comes as one more element before the others.
        exclusive: whether the element itself is left out.
        reverse: whether to start at the end; the sum of nothing is then the last element.

    Raises:
        AxisError: the axis is out of range, or is missing.
        DTypeError: x holds no numbers.
        ArgumentValueError: both `exclusive` and `include_initial` are True.
    """
    return _scanned(
        scan.cumsum, "cumulative_sum", x, axis, dtype, include_initial, exclusive, reverse
    )


def cumulative_prod(
    x: TensorLike,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
    exclusive: bool = False,
    reverse: bool = False,
) -> Tensor:
    """The product of the elements up to each one along an axis; arguments as for `cumulative_sum`.

    >>> plugrad.cumulative_prod([[2.0, 3.0, 4.0], [5.0, 6.0, 7.0]], axis=1)
    tensor([[  2.,   6.,  24.],
            [  5.,  30., 210.]], dtype=float32)

    The product of nothing is 1.
    """
    return _scanned(
        scan.cumprod, "cumulative_prod", x, axis, dtype, include_initial, exclusive, reverse
    )


def _scanned(
    kernel: Kernel[..., Tensor],
    op: str,
    x: TensorLike,
    axis: int | None,
    dtype: DTypeLike | None,
    include_initial: bool,
    exclusive: bool,
    reverse: bool,
) -> Tensor:
    x = coerced(summable(x, op, dtype), kernel, op)
    if axis is None and x.ndim != 1:
        raise AxisError(f"{op}: axis is needed for a tensor with {x.ndim} axes (shape {x.shape})")
    axis = axis_of(0 if axis is None else axis, x.ndim, name=f"{op}: axis")
    exclusive = flag(exclusive, op, "exclusive")
    if flag(include_initial, op, "include_initial"):
        if exclusive:
            raise ArgumentValueError(
                f"{op}: exclusive=True starts with the initial value already; leave include_initial out"
            )
        # Room for one more element: an exclusive scan leaves the last one out, whatever it holds.
        room = [(0, 0)] * x.ndim
        room[axis] = (1, 0) if reverse else (0, 1)
        x = movement.pad(x, paddings=tuple(room), constant_value=0)
        exclusive = True
    return kernel(x, axis=axis, exclusive=exclusive, reverse=flag(reverse, op, "reverse"))
