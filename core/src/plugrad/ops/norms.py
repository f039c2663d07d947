"""Norms of vectors and matrices."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from plugrad.errors import ArgumentError, ArgumentValueError, AxisError, ShapeError, short_repr
from plugrad.kernels import reduction, unary
from plugrad.ops.arguments import as_supported_dtype
from plugrad.ops.attributes import check_flag, check_real as real_number
from plugrad.ops.binary import divide, equal, greater, less, logical_and, not_equal, where
from plugrad.ops.decomposition import inv, svdvals
from plugrad.ops.movement import moveaxis, reshape
from plugrad.ops.reduction import all, max, min, run_reduction, sum
from plugrad.ops.transfer import stop_gradient
from plugrad.ops.unary import abs, sqrt
from plugrad.tensor.tracer import is_traced
from plugrad.types.arguments import explain_wrong_calls
from plugrad.types.dtype import COMPLEX, equivalents
from plugrad.types.shapes import normalize_axes, normalize_axis, reduced_shape

if TYPE_CHECKING:
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.specs import AxisLike

MatrixOrder: TypeAlias = float | Literal["fro", "nuc"] | None
"""The order of a norm of matrices; None means "fro"."""
NormOrder: TypeAlias = float | Literal["euclidean", "fro", "nuc"]
"""The order of a norm of vectors or matrices."""


@explain_wrong_calls
def vector_norm(
    x: TensorLike, /, *, axis: AxisLike = None, keepdims: bool = False, ord: float = 2
) -> Tensor:
    """The norm of vectors along axes: the `ord`-th root of the sum of the `ord`-th powers of absolute values.

    >>> plugrad.linalg.vector_norm([3.0, 4.0])
    tensor(5., dtype=float32)

    The dtype is that of x, real for a complex x; integers and bools become float32. The gradient at
    a vector of zeros, where the norm has a kink, is 0.

    Args:
        x: numbers of any shape.
        axis: the axes along which each vector lies; None for all elements.
        keepdims: whether these axes remain, with size 1.
        ord: any number; ``inf`` gives the largest absolute value, ``-inf`` the smallest, and 0 the
            number of elements that are not 0.

    Raises:
        AxisError: an axis is out of range or named twice.
        DTypeError: x holds strings.
        ArgumentError: `ord` is not a number, or `keepdims` not a bool.
        ArgumentValueError: `ord` is NaN.
        ShapeError: `ord` is infinite, and there are no elements along an axis.
    """
    x = as_supported_dtype(x, unary.sqrt, "vector_norm")
    if keepdims is not False:
        keepdims = check_flag(keepdims, "vector_norm", "keepdims")
    ord = 2.0 if type(ord) is int and ord == 2 else real_number(ord, "vector_norm", "ord")
    if ord == 2:
        return _euclidean_norm(x, axis, keepdims)
    size = abs(x)
    if ord in (inf, -inf):
        return (max if ord > 0 else min)(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        return sum(not_equal(x, 0).astype(size.dtype), axis=axis, keepdims=keepdims)
    if ord == 1:
        return sum(size, axis=axis, keepdims=keepdims)
    if not x.size:
        return sum(size, axis=axis, keepdims=keepdims) ** (1 / ord)
    # Relative to the element that counts most, powers do not overflow, and vanish only beside larger ones.
    peak = stop_gradient((max if ord > 0 else min)(size, axis=axis, keepdims=True))
    has_powers = logical_and(greater(peak, 0), less(peak, inf))
    peak = where(has_powers, peak, 1)
    is_zero = all(equal(size, 0), axis=axis, keepdims=True)
    total = sum((where(is_zero, 1, size) / peak) ** ord, axis=axis, keepdims=keepdims)
    y = total ** (1 / ord) * reshape(peak, total.shape)
    return where(reshape(is_zero, y.shape), 0, y)


def _euclidean_norm(x: Tensor, axis: AxisLike, keepdims: bool) -> Tensor:
    """Return the Euclidean norm of floats or complex numbers."""
    x = abs(x) if x.array.dtype in _COMPLEX_DTYPES else x
    return run_reduction(x, reduction.euclidean_norm, "norm", axis, keepdims)


_COMPLEX_DTYPES: Final = equivalents(COMPLEX)
"""The complex dtypes, in plugrad's and NumPy's spelling."""


def sqrt_with_zero_gradient(x: Tensor) -> Tensor:
    """Return the square root; its gradient at 0 is 0 instead of infinite."""
    if x.node is None and not is_traced(x):
        return unary.sqrt.call(x)
    is_zero = equal(x, 0)
    return where(is_zero, 0, sqrt(where(is_zero, 1, x)))


@explain_wrong_calls
def matrix_norm(
    x: TensorLike,
    /,
    *,
    keepdims: bool = False,
    ord: MatrixOrder = "fro",
) -> Tensor:
    """The norms of matrices, which lie along the last two axes.

    >>> plugrad.linalg.matrix_norm([[3.0, 0.0], [0.0, 4.0]])
    tensor(5., dtype=float32)

    The dtype is that of x, real for a complex x; integers and bools become float32.

    Args:
        x: matrices, of shape (…, rows, columns).
        keepdims: whether the last two axes remain, with size 1.
        ord: "fro" or None for the root of the sum of squares (Frobenius), "nuc" for the sum of the
            singular values; 2 and -2 for the largest and the smallest singular value; 1 and -1 for
            the largest and the smallest sum of absolute values in a column, inf and -inf in a row.

    Raises:
        ShapeError: x has fewer than two axes, or a matrix without elements has no such norm.
        DTypeError: x holds strings.
        ArgumentError: `ord` is neither a number nor a string, or `keepdims` is not a bool.
        ArgumentValueError: `ord` is none of these.
    """
    x = as_supported_dtype(x, unary.sqrt, "matrix_norm")
    if x.ndim < 2:
        raise ShapeError(f"matrix_norm: shape {x.shape} must have two axes or more")
    keepdims = check_flag(keepdims, "matrix_norm", "keepdims")
    if not isinstance(ord, str | float | int | None):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
        raise ArgumentError(f"matrix_norm: ord={short_repr(ord)} must be a number or a string")
    if ord in ("fro", None):
        return _euclidean_norm(x, (-2, -1), keepdims)
    if ord not in ("nuc", 1, -1, 2, -2, inf, -inf):
        raise ArgumentValueError(
            f"matrix_norm: ord={short_repr(ord)} must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf"
        )
    if ord in ("nuc", 2, -2):
        values = svdvals(x)
        summary = {"nuc": sum, 2: max, -2: min}[ord]
        y = summary(values, axis=-1)
    else:
        along = -2 if ord in (1, -1) else -1
        sums = sum(abs(x), axis=along)
        y = (max if float(ord) > 0 else min)(sums, axis=-1)  # type: ignore[arg-type]
    return (
        reshape(y, reduced_shape(x.shape, (x.ndim - 2, x.ndim - 1), keep_dims=True))
        if keepdims
        else y
    )


@explain_wrong_calls
def norm(
    x: TensorLike,
    ord: NormOrder = "euclidean",
    axis: AxisLike = None,
    keepdims: bool = False,
) -> Tensor:
    """The norms of vectors along one axis, of matrices along two axes, or of all elements as one vector.

    >>> plugrad.linalg.norm([[3.0, 0.0], [0.0, 4.0]])
    tensor(5., dtype=float32)

    The dtype is that of x, real for a complex x; integers and bools become float32.

    Args:
        x: numbers of any shape.
        ord: "euclidean" for `vector_norm` with ord 2, or for `matrix_norm` with "fro"; other orders
            are those of `vector_norm` and `matrix_norm`.
        axis: one axis, a sequence of two for the rows and the columns of matrices, or None.
        keepdims: whether these axes remain, with size 1.

    Raises:
        AxisError: there are more than two axes, or one is out of range or named twice.
        DTypeError: x holds strings.
        ArgumentError: `ord` is neither a number nor a string, or `keepdims` is not a bool.
        ArgumentValueError: `ord` is unknown.
        ShapeError: vectors or matrices without elements have no such norm.
    """
    x = as_supported_dtype(x, unary.sqrt, "norm")
    keepdims = check_flag(keepdims, "norm", "keepdims")
    if isinstance(axis, Sequence) and len(axis) == 2:
        rows, columns = (normalize_axis(a, x.ndim, name="norm: axis") for a in axis)
        if rows == columns:
            raise AxisError(f"norm: axis={axis} names an axis twice")
        kind: Any = "fro" if ord == "euclidean" else ord
        y = matrix_norm(moveaxis(x, (rows, columns), (-2, -1)), ord=kind)
        axes = normalize_axes(axis, x.ndim, name="norm: axis")
        return reshape(y, reduced_shape(x.shape, axes, keep_dims=True)) if keepdims else y
    if isinstance(axis, Sequence) and len(axis) > 2:
        raise AxisError(f"norm: axis={axis} must be one axis, two axes or None")
    if isinstance(ord, str) and ord != "euclidean":
        raise ArgumentValueError(
            f"norm: ord={short_repr(ord)} is for two axes; for vectors it is a number or 'euclidean'"
        )
    return vector_norm(x, axis=axis, keepdims=keepdims, ord=2 if isinstance(ord, str) else ord)


def cond(x: TensorLike, /, *, p: MatrixOrder = None) -> Tensor:
    """The condition number of matrices: the norm of each times the norm of its inverse.

    >>> plugrad.linalg.cond([[2.0, 0.0], [0.0, 4.0]])
    tensor(2., dtype=float32)

    It is inf for a singular matrix. The dtype is that of x, real for a complex x; integers and bools become float32.

    Args:
        x: matrices (…, rows, columns); square ones unless `p` is None, 2 or -2.
        p: the order of the norm, as for `matrix_norm`; None for 2, the ratio of the largest and the smallest
            singular value. -2 is its reciprocal.

    Raises:
        ShapeError: x has fewer than two axes, no elements, or is not square.
        DTypeError: x holds strings.
        ArgumentError, ArgumentValueError: as for `matrix_norm`; ArgumentValueError also for a singular matrix
            unless `p` is None, 2 or -2.
    """
    x = as_supported_dtype(x, unary.sqrt, "cond")
    if x.ndim < 2 or not x.shape[-1] or not x.shape[-2]:
        raise ShapeError(f"cond: shape {x.shape} must be that of matrices with elements")
    if not isinstance(p, str | float | int | None):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
        raise ArgumentError(f"cond: p={short_repr(p)} must be a number or a string")
    if p in (None, 2, -2):
        values = svdvals(x)
        largest, smallest = values[..., 0], values[..., -1]
        return divide(smallest, largest) if p == -2 else divide(largest, smallest)
    return matrix_norm(x, ord=p) * matrix_norm(inv(x), ord=p)
