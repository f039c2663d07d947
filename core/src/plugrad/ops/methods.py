"""Methods and operators of tensors that differ from the op of the same name, mostly by the arguments that NumPy passes.

`plugrad.ops.operators` attaches them.
"""

from __future__ import annotations

from functools import partial
from operator import index as as_index
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from plugrad.errors import ArgumentError, ArgumentValueError, DTypeError, ShapeError, short_repr
from plugrad.kernels import movement as kernels
from plugrad.ops import (
    binary,
    complex as complexes,
    linalg,
    movement,
    reduction,
    scan,
    statistics,
    transfer,
    unary,
)
from plugrad.ops.dtypes import requested_dtype
from plugrad.types.dtype import as_dtype, complex64, complex128, float32, float64

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from plugrad.tensor.backend import Backend
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.dtype import DTypeLike
    from plugrad.types.specs import AxisLike


def astype(self: Tensor, dtype: DTypeLike) -> Tensor:
    """Convert to another dtype; see `plugrad.astype`."""
    return unary.astype(self, dtype)


def to(self: Tensor, device: str | Backend) -> Tensor:
    """Copy to another backend or device, such as ``"webgpu"`` or ``"cpu"``; see `plugrad.to_device`."""
    return transfer.to_device(self, device)


def to_device(self: Tensor, device: str | Backend, *, stream: None = None) -> Tensor:
    """Copy to another backend or device: the array API's name of `to`."""
    return transfer.to_device(self, device)


def reshape(self: Tensor, *shape: Any) -> Tensor:
    """Return the same values in another shape; see `plugrad.reshape`."""
    return movement.reshape(self, shape[0] if len(shape) == 1 else shape)


def sum(
    self: Tensor,
    axis: AxisLike = None,
    keepdims: bool = False,
    *,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Tensor:
    """Sum over axes; see `plugrad.sum`."""
    _check_out_is_none("sum", out)
    return reduction.sum(self, axis=axis, dtype=dtype, keepdims=keepdims)


def mean(
    self: Tensor,
    axis: AxisLike = None,
    keepdims: bool = False,
    *,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Tensor:
    """Average over axes; see `plugrad.mean`."""
    _check_out_is_none("mean", out)
    return reduction.mean(_astype_if_given(self, dtype), axis=axis, keepdims=keepdims)


def prod(
    self: Tensor,
    axis: AxisLike = None,
    keepdims: bool = False,
    *,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Tensor:
    """Multiply along axes; see `plugrad.prod`."""
    _check_out_is_none("prod", out)
    return reduction.prod(self, axis=axis, dtype=dtype, keepdims=keepdims)


def std(
    self: Tensor,
    axis: AxisLike = None,
    keepdims: bool = False,
    *,
    ddof: float = 0,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Tensor:
    """Return the standard deviation along axes; see `plugrad.std`, whose `correction` is NumPy's `ddof`."""
    _check_out_is_none("std", out)
    return statistics.std(
        _astype_if_given(self, dtype), axis=axis, correction=ddof, keepdims=keepdims
    )


def var(
    self: Tensor,
    axis: AxisLike = None,
    keepdims: bool = False,
    *,
    ddof: float = 0,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Tensor:
    """Return the variance along axes; see `plugrad.var`, whose `correction` is NumPy's `ddof`."""
    _check_out_is_none("var", out)
    return statistics.var(
        _astype_if_given(self, dtype), axis=axis, correction=ddof, keepdims=keepdims
    )


def max(self: Tensor, axis: AxisLike = None, keepdims: bool = False, *, out: None = None) -> Tensor:
    """Return the largest values along axes; see `plugrad.max`."""
    _check_out_is_none("max", out)
    return reduction.max(self, axis=axis, keepdims=keepdims)


def min(self: Tensor, axis: AxisLike = None, keepdims: bool = False, *, out: None = None) -> Tensor:
    """Return the smallest values along axes; see `plugrad.min`."""
    _check_out_is_none("min", out)
    return reduction.min(self, axis=axis, keepdims=keepdims)


def all(self: Tensor, axis: AxisLike = None, keepdims: bool = False, *, out: None = None) -> Tensor:
    """Return whether all elements along axes are True; see `plugrad.all`."""
    _check_out_is_none("all", out)
    return reduction.all(self, axis=axis, keepdims=keepdims)


def any(self: Tensor, axis: AxisLike = None, keepdims: bool = False, *, out: None = None) -> Tensor:
    """Return whether any element along axes is True; see `plugrad.any`."""
    _check_out_is_none("any", out)
    return reduction.any(self, axis=axis, keepdims=keepdims)


def argmax(
    self: Tensor, axis: int | None = None, keepdims: bool = False, *, out: None = None
) -> Tensor:
    """Return the positions of the largest values; see `plugrad.argmax`."""
    _check_out_is_none("argmax", out)
    return reduction.argmax(self, axis=axis, keepdims=keepdims)


def argmin(
    self: Tensor, axis: int | None = None, keepdims: bool = False, *, out: None = None
) -> Tensor:
    """Return the positions of the smallest values; see `plugrad.argmin`."""
    _check_out_is_none("argmin", out)
    return reduction.argmin(self, axis=axis, keepdims=keepdims)


def cumsum(
    self: Tensor, axis: int | None = None, *, dtype: DTypeLike | None = None, out: None = None
) -> Tensor:
    """Return the sums up to each element along an axis, or of all elements; see `plugrad.cumulative_sum`."""
    _check_out_is_none("cumsum", out)
    x = movement.reshape(self, (-1,)) if axis is None else self
    return scan.cumulative_sum(x, axis=axis, dtype=dtype)


def cumprod(
    self: Tensor, axis: int | None = None, *, dtype: DTypeLike | None = None, out: None = None
) -> Tensor:
    """Return the products up to each element along an axis, or of all elements; see `plugrad.cumulative_prod`."""
    _check_out_is_none("cumprod", out)
    x = movement.reshape(self, (-1,)) if axis is None else self
    return scan.cumulative_prod(x, axis=axis, dtype=dtype)


def transpose(self: Tensor, *axes: Any) -> Tensor:
    """Return the tensor with its axes in another order, or in the reverse one; see `plugrad.permute_dims`."""
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], list | tuple)):
        return movement.permute_dims(self, axes[0])
    return movement.permute_dims(self, axes or None)


def copy_tensor(x: Tensor, memo: Any = None) -> Tensor:
    """Return another tensor with the same values; a deep copy does not copy the backend."""
    return unary.astype(x, x.dtype)


def reduce_for_pickle(x: Tensor) -> Any:
    """Return pickle's recipe for the tensor: its values and its device."""
    values, device = x.numpy(), x.device
    return partial(transfer.restore_pickled, distribution=x.backend.distribution), (values, device)


def export_buffer(x: Tensor, flags: int, /) -> memoryview:
    """Return the values in C order, for reading only: the buffer protocol, which Python 3.12 asks for.

    Raises:
        BufferError: NumPy has no buffers of the dtype, as for strings.
    """
    values = np.asarray(x.numpy(), order="C")
    try:
        return values.data.toreadonly()
    except ValueError as error:  # as NumPy says it
        raise BufferError(f"a {x.dtype} tensor has no buffer: {error}") from None


def view(x: Tensor, *dtype: Any) -> Tensor:
    """Return the real numbers of which complex ones consist, or the complex ones that real ones make up.

    The last axis is twice as long, or half; real and imaginary parts alternate along it. `float` and `complex`, as
    types of Python, stand for the dtypes of the precision of x. The dtype of x gives x.

    >>> plugrad.asarray([1 + 2j, 3]).view(float)
    tensor([1., 2., 3., 0.], dtype=float32)

    Raises:
        ArgumentError: a shape is given, as PyTorch takes it.
        DTypeError: `dtype` is another one.
        UnsupportedDtype: the backend does not have it; the setting ``unsupported_dtype`` "always" replaces it.
        ShapeError: there is no last axis, or its size is odd.
    """
    if len(dtype) != 1 or isinstance(dtype[0], int | tuple | list):
        raise ArgumentError("view takes a dtype; for a new shape, write x.reshape(shape)")
    real, pair = _REAL_AND_COMPLEX_DTYPES.get(x.dtype, (None, None))
    (given,) = dtype
    if given is float or given is complex:
        wanted = real if given is float else pair
    else:
        wanted = requested_dtype(as_dtype(given), x.backend)
    if wanted is x.dtype:
        return +x
    if wanted is None or wanted not in (real, pair):
        raise DTypeError(
            f"view: {short_repr(given)} must be a dtype that {x.dtype} consists of, or that consists of it; for the "
            "bits of elements, write x.numpy().view(dtype)"
        )
    if not x.ndim or (wanted is pair and x.shape[-1] % 2):
        raise ShapeError(
            f"view: the numbers of shape {x.shape} do not pair along a last axis as {wanted}"
        )
    if wanted is real:
        parts = movement.stack([complexes.real(x), complexes.imag(x)], axis=-1)
        return movement.reshape(parts, (*x.shape[:-1], -1 if x.size else 2 * x.shape[-1]))
    pairs = movement.reshape(x, (*x.shape[:-1], x.shape[-1] // 2, 2))
    return complexes.complex(pairs[..., 0], pairs[..., 1])


_REAL_AND_COMPLEX_DTYPES: Final = {
    dtype: pair for pair in ((float32, complex64), (float64, complex128)) for dtype in pair
}
"""The pair of a real and a complex dtype of one precision, by each of both dtypes."""


def transpose_matrix(x: Tensor) -> Tensor:
    """The transpose of a matrix.

    Raises:
        ShapeError: the tensor does not have two axes.
    """
    array = x.array
    if len(array.shape) != 2:
        raise ShapeError(f"T is for two axes, but the shape is {x.shape}; use permute_dims")
    attrs = movement.transpose_attributes(array.shape, array.dtype, None)
    return kernels.transpose.call(x, attrs)


def transpose_matrices(x: Tensor) -> Tensor:
    """The transposes of the matrices on the last two axes; see `plugrad.matrix_transpose`."""
    return linalg.matrix_transpose(x)


def iterate_first_axis(x: Tensor) -> Iterator[Tensor]:
    """Return an iterator over the tensors along the first axis.

    Raises:
        ArgumentError: there is none.
    """
    if not x.ndim:
        raise ArgumentError(
            "iteration over a 0-d tensor; it has no axes, and item() gives its value"
        )
    return iter(movement.unstack(x))


def round_to_digits(x: Tensor, digits: int | None = None) -> Tensor:
    """Return ``round(x, digits)``: the elements with so many decimals, halves to even, in the dtype of x.

    Raises:
        ArgumentValueError: the elements are integers, and the number of digits is negative.
    """
    if not digits or (digits > 0 and x.dtype.is_integer):
        return unary.round(x)
    if x.dtype.is_integer:
        raise ArgumentValueError(
            f"round: ndigits={digits} is negative, which is for floats; cast x first, as in x.astype('float32')"
        )
    scale = 10.0 ** abs(as_index(digits))
    if digits < 0:
        return unary.round(x / scale) * scale
    return unary.round(x * scale) / scale


def concat(
    self: Tensor, others: TensorLike | Sequence[TensorLike], *, axis: int | None = 0
) -> Tensor:
    """Join the tensor and others, or one other, along an axis; see `plugrad.concat`."""
    return movement.concat([self, *_as_tensor_list(others)], axis=axis)


def stack(self: Tensor, others: TensorLike | Sequence[TensorLike], *, axis: int = 0) -> Tensor:
    """Join the tensor and others, or one other, along a new axis; see `plugrad.stack`."""
    return movement.stack([self, *_as_tensor_list(others)], axis=axis)


def where(self: Tensor, condition: TensorLike, b: TensorLike, /) -> Tensor:
    """Return the elements of the tensor where a condition holds, and those of b elsewhere; see `plugrad.where`."""
    return binary.where(condition, self, b)


def _astype_if_given(x: Tensor, dtype: DTypeLike | None) -> Tensor:
    """Cast x to a dtype, unless the dtype is None."""
    return x if dtype is None else unary.astype(x, dtype)


def _as_tensor_list(others: Any) -> Sequence[TensorLike]:
    """Return the tensors of a list or tuple; anything else becomes a list of one."""
    return cast("Sequence[TensorLike]", others) if isinstance(others, list | tuple) else (others,)


def _check_out_is_none(method: str, out: object) -> None:
    """Raise unless `out` is None: NumPy's functions pass it to the method of the same name.

    Raises:
        ArgumentError: it is not.
    """
    if out is not None:
        raise ArgumentError(
            f"{method}: out is a {type(out).__name__}, and must be None; assign the result instead, as in "
            f"y[...] = x.{method}()"
        )
