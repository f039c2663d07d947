"""Norms of vectors and matrices."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Literal

from plugrad.errors import ArgumentError, ArgumentValueError, AxisError, ShapeError
from plugrad.kernels import unary
from plugrad.ops.arguments import coerced
from plugrad.ops.attributes import flag, real as real_number
from plugrad.ops.binary import equal, not_equal, where
from plugrad.ops.complex import conj, real
from plugrad.ops.decomposition import svdvals
from plugrad.ops.movement import moveaxis, reshape
from plugrad.ops.reduction import all, max, min, sum
from plugrad.ops.unary import abs, sqrt
from plugrad.types.shapes import axes_of, axis_of, reduced

if TYPE_CHECKING:
    from plugrad.tensor.tensor import Tensor, TensorLike

Axis = int | Sequence[int] | None


def vector_norm(
    x: TensorLike, /, *, axis: Axis = None, keepdims: bool = False, ord: float = 2
) -> Tensor:
    """The norm of vectors along axes: the `ord`-th root of the sum of the `ord`-th powers of absolute values.

    >>> plugrad.linalg.vector_norm([3.0, 4.0])
    tensor(5., dtype=float32)

    ``inf`` is the largest absolute value, ``-inf`` the smallest, 0 the number of elements that are
    not 0. The gradient of a zero vector is 0.

    Raises:
        AxisError: an axis is out of range.
    """
    x = coerced(x, unary.sqrt, "vector_norm")
    ord, keepdims = (
        real_number(ord, "vector_norm", "ord"),
        flag(keepdims, "vector_norm", "keepdims"),
    )
    if ord == 2:
        return _root_of_squares(x, axis, keepdims)
    size = abs(x)
    if ord in (inf, -inf):
        return (max if ord > 0 else min)(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        return sum(not_equal(x, 0).astype(size.dtype), axis=axis, keepdims=keepdims)
    if ord == 1:
        return sum(size, axis=axis, keepdims=keepdims)
    is_zero = all(equal(size, 0), axis=axis, keepdims=True)
    total = sum(where(is_zero, 1, size) ** ord, axis=axis, keepdims=keepdims)
    root = total ** (1 / ord)
    return where(reshape(is_zero, root.shape), 0, root) if x.size else root


def _root_of_squares(x: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    """Return the Euclidean norm; at 0, where the root is steep, its gradient is 0."""
    squares = real(x * conj(x))
    total = sum(squares, axis=axis, keepdims=keepdims)
    is_zero = equal(total, 0)
    return where(is_zero, 0, sqrt(where(is_zero, 1, total)))


def matrix_norm(
    x: TensorLike,
    /,
    *,
    keepdims: bool = False,
    ord: float | Literal["fro", "nuc"] | None = "fro",
) -> Tensor:
    """The norm of matrices, the last two axes.

    >>> plugrad.linalg.matrix_norm([[3.0, 0.0], [0.0, 4.0]])
    tensor(5., dtype=float32)

    "fro" is the root of the sum of squares, "nuc" the sum of singular values; 2 and -2 are the
    largest and the smallest singular value, 1 and -1 the largest and the smallest sum of absolute
    values of a column, inf and -inf those of a row.

    Raises:
        ShapeError: the tensor has less than two axes.
        ArgumentValueError: the order is none of these.
    """
    x = coerced(x, unary.sqrt, "matrix_norm")
    if x.ndim < 2:
        raise ShapeError(f"matrix_norm: shape {x.shape} must have two axes or more")
    keepdims = flag(keepdims, "matrix_norm", "keepdims")
    if not isinstance(ord, str | float | int | None):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
        raise ArgumentError(f"matrix_norm: ord={ord!r} must be a number or a string")
    if ord in ("fro", None):
        return _root_of_squares(x, (-2, -1), keepdims)
    if ord not in ("nuc", 1, -1, 2, -2, inf, -inf):
        raise ArgumentValueError(
            f"matrix_norm: ord={ord!r} must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf"
        )
    if ord in ("nuc", 2, -2):
        values = svdvals(x)
        summary = {"nuc": sum, 2: max, -2: min}[ord]
        y = summary(values, axis=-1)
    else:
        along = -2 if ord in (1, -1) else -1
        sums = sum(abs(x), axis=along)
        y = (max if float(ord) > 0 else min)(sums, axis=-1)  # type: ignore[arg-type]
    return reshape(y, reduced(x.shape, (x.ndim - 2, x.ndim - 1), keep_dims=True)) if keepdims else y


def norm(
    x: TensorLike,
    ord: float | Literal["euclidean", "fro"] = "euclidean",
    axis: Axis = None,
    keepdims: bool = False,
) -> Tensor:
    """The norm along one axis, of matrices along two axes, or of all elements.

    >>> plugrad.linalg.norm([[3.0, 0.0], [0.0, 4.0]])
    tensor(5., dtype=float32)

    Without an axis the elements count as one vector. "euclidean" is `vector_norm` with ord 2 for
    vectors and "fro" for matrices; other orders are those of `vector_norm` and `matrix_norm`.

    Raises:
        AxisError: there are more than two axes, or one is out of range.
        ArgumentValueError: the order is unknown.
    """
    x = coerced(x, unary.sqrt, "norm")
    if isinstance(axis, Sequence) and len(axis) == 2:
        rows, columns = (axis_of(a, x.ndim, name="norm: axis") for a in axis)
        if rows == columns:
            raise AxisError(f"norm: axis={axis} names an axis twice")
        kind: Any = "fro" if ord == "euclidean" else ord
        y = matrix_norm(moveaxis(x, (rows, columns), (-2, -1)), ord=kind)
        axes = axes_of(axis, x.ndim, name="norm: axis")
        return reshape(y, reduced(x.shape, axes, keep_dims=True)) if keepdims else y
    if isinstance(axis, Sequence) and len(axis) > 2:
        raise AxisError(f"norm: axis={axis} must be one axis, two axes or None")
    if isinstance(ord, str) and ord != "euclidean":
        raise ArgumentValueError(
            f"norm: ord={ord!r} is for two axes; for vectors it is a number or 'euclidean'"
        )
    return vector_norm(x, axis=axis, keepdims=keepdims, ord=2 if isinstance(ord, str) else ord)
