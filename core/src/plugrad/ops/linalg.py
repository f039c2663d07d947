"""Products and parts of matrices; together with factorizations and norms the namespace `plugrad.linalg`."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from plugrad.errors import ArgumentValueError, AxisError, DTypeError, ShapeError
from plugrad.kernels import binary, linalg, movement
from plugrad.ops.arguments import as_tensor, constant, promoted
from plugrad.ops.attributes import flag, is_several, listed, whole
from plugrad.ops.binary import less_equal, multiply, where
from plugrad.ops.complex import conj
from plugrad.ops.creation import arange, eye
from plugrad.ops.movement import concat, moveaxis, reshape
from plugrad.ops.reduction import sum
from plugrad.types.dtype import DTypeLike, int32
from plugrad.types.shapes import axis_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.tensor.tensor import Tensor, TensorLike


def matmul(
    a: TensorLike, b: TensorLike, /, transpose_a: bool = False, transpose_b: bool = False
) -> Tensor:
    """The matrix product of the last two axes; the axes before them are broadcast.

    >>> plugrad.matmul([[1.0, 2.0], [3.0, 4.0]], [[1.0], [10.0]])
    tensor([[21.],
            [43.]], dtype=float32)

    A 1-d operand is a row vector on the left and a column vector on the right, and its axis
    disappears. `transpose_a` and `transpose_b` exchange the last two axes of an operand first.

    Raises:
        ShapeError: an operand is 0-d, or the inner sizes differ.
    """
    x, y = promoted(a, b, linalg.matmul, "matmul")
    if transpose_a is not False or transpose_b is not False:  # most products do without
        transpose_a = flag(transpose_a, "matmul", "transpose_a")
        transpose_b = flag(transpose_b, "matmul", "transpose_b")
    if x.ndim == 0 or y.ndim == 0:
        raise ShapeError(
            f"matmul: shapes {x.shape} and {y.shape} must have an axis; use multiply for scalars"
        )
    if x.ndim > 1 and y.ndim > 1:
        if transpose_a or transpose_b:
            return linalg.matmul(x, y, transpose_a=transpose_a, transpose_b=transpose_b)
        return linalg.matmul(x, y)
    rows = x if x.ndim > 1 else movement.expand_dims(x, dim=0)
    columns = y if y.ndim > 1 else movement.expand_dims(y, dim=1)
    try:
        product = linalg.matmul(
            rows,
            columns,
            transpose_a=transpose_a and x.ndim > 1,
            transpose_b=transpose_b and y.ndim > 1,
        )
    except ShapeError:  # of shapes that nobody has passed
        raise ShapeError(
            f"matmul: shapes {x.shape} and {y.shape} do not match: a vector must be as long as the "
            "axis that it meets, the last one on its left or the last but one on its right"
        ) from None
    shape = (
        *product.shape[:-2],
        *(product.shape[-2:-1] if x.ndim > 1 else ()),
        *(product.shape[-1:] if y.ndim > 1 else ()),
    )
    return movement.reshape(product, shape=shape)


def dot(a: TensorLike, b: TensorLike) -> Tensor:
    """The product of vectors and matrices: a number, a vector or a matrix.

    >>> plugrad.dot([1.0, 2.0], [3.0, 4.0])
    tensor(11., dtype=float32)

    Raises:
        ShapeError: an operand has not one or two axes, or the inner sizes differ.
    """
    x, y = promoted(a, b, linalg.matmul, "dot")
    if x.ndim not in (1, 2) or y.ndim not in (1, 2):
        raise ShapeError(
            f"dot: shapes {x.shape} and {y.shape} must have one or two axes; use matmul for more"
        )
    return matmul(x, y)


def outer(a: TensorLike, b: TensorLike, /) -> Tensor:
    """The product of each element of one vector with each of another, a matrix.

    >>> plugrad.linalg.outer([1.0, 2.0], [3.0, 4.0, 5.0])
    tensor([[ 3.,  4.,  5.],
            [ 6.,  8., 10.]], dtype=float32)

    Raises:
        ShapeError: an operand is not 1-d.
    """
    x, y = promoted(a, b, binary.multiply, "outer")
    if x.ndim != 1 or y.ndim != 1:
        raise ShapeError(f"outer: shapes {x.shape} and {y.shape} must have one axis each")
    return multiply(movement.expand_dims(x, dim=1), y)


def vecdot(a: TensorLike, b: TensorLike, /, *, axis: int = -1) -> Tensor:
    """The sum of the products along an axis; complex numbers of the first operand are conjugated.

    >>> plugrad.vecdot([[1.0, 2.0], [3.0, 4.0]], [10.0, 1.0])
    tensor([12., 34.], dtype=float32)

    Raises:
        ShapeError: the operands have different sizes along the axis.
        AxisError: an operand has not the axis.
    """
    x, y = promoted(a, b, binary.multiply, "vecdot")
    along = [axis_of(axis, x.ndim, name="vecdot: axis"), axis_of(axis, y.ndim, name="vecdot: axis")]
    if x.shape[along[0]] != y.shape[along[1]]:
        raise ShapeError(
            f"vecdot: sizes {x.shape[along[0]]} and {y.shape[along[1]]} along axis {axis} must be equal "
            f"(shapes {x.shape} and {y.shape})"
        )
    products = moveaxis(conj(x), along[0], -1) * moveaxis(y, along[1], -1)
    return sum(products, axis=-1, dtype=products.dtype)


def tensordot(
    a: TensorLike, b: TensorLike, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Tensor:
    """The sum of products along pairs of axes: the last `axes` of one with the first of the other, or two lists.

    >>> plugrad.tensordot([[1.0, 2.0], [3.0, 4.0]], [[1.0, 0.0], [0.0, 1.0]], axes=2)
    tensor(5., dtype=float32)

    Raises:
        ShapeError: sizes of a pair of axes differ.
        ArgumentValueError: there are not as many axes of one operand as of the other.
    """
    x, y = promoted(a, b, linalg.matmul, "tensordot")
    if is_several(axes):
        lists = listed(axes, "tensordot", "axes")
        if len(lists) != 2:
            raise ArgumentValueError(
                f"tensordot: axes={axes} must be a number, or two lists of axes"
            )
        first, second = (listed(part, "tensordot", "axes") for part in lists)
        pairs = (
            [axis_of(i, x.ndim, name="tensordot: axes") for i in first],
            [axis_of(i, y.ndim, name="tensordot: axes") for i in second],
        )
        if any(len(set(found)) != len(found) for found in pairs):
            raise AxisError(f"tensordot: axes={axes} names an axis twice")
    else:
        count = whole(axes, "tensordot", "axes")
        if not 0 <= count <= min(x.ndim, y.ndim):
            raise ArgumentValueError(
                f"tensordot: axes={count} must be between 0 and the ranks {x.ndim} and {y.ndim}"
            )
        pairs = list(range(x.ndim - count, x.ndim)), list(range(count))
    if [x.shape[i] for i in pairs[0]] != [y.shape[i] for i in pairs[1]]:
        raise ShapeError(
            f"tensordot: axes {pairs[0]} of shape {x.shape} do not match axes {pairs[1]} of shape {y.shape}"
        )
    free_x = [i for i in range(x.ndim) if i not in pairs[0]]
    free_y = [i for i in range(y.ndim) if i not in pairs[1]]
    rows = movement.transpose(x, perm=(*free_x, *pairs[0]))
    columns = movement.transpose(y, perm=(*pairs[1], *free_y))
    shape = (*(x.shape[i] for i in free_x), *(y.shape[i] for i in free_y))
    inner = prod(x.shape[i] for i in pairs[0])
    product = linalg.matmul(
        reshape(rows, (prod(x.shape[i] for i in free_x), inner)),
        reshape(columns, (inner, prod(y.shape[i] for i in free_y))),
    )
    return reshape(product, shape)


def cross(a: TensorLike, b: TensorLike, /, *, axis: int = -1) -> Tensor:
    """The cross product of vectors with three elements along an axis.

    >>> plugrad.linalg.cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
    tensor([0., 0., 1.], dtype=float32)

    Raises:
        ShapeError: a size along the axis is not 3.
    """
    x, y = promoted(a, b, binary.multiply, "cross")
    x, y = (moveaxis(v, axis_of(axis, v.ndim, name="cross: axis"), -1) for v in (x, y))
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        raise ShapeError(
            f"cross: the vectors must have 3 elements along axis {axis}, not {x.shape[-1]} and {y.shape[-1]}"
        )
    (x0, x1, x2), (y0, y1, y2) = ([v[..., i : i + 1] for i in range(3)] for v in (x, y))
    parts = [x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0]
    return moveaxis(concat(parts, axis=-1), -1, axis)


def matrix_transpose(x: TensorLike, /) -> Tensor:
    """The matrices, the last two axes, with rows and columns exchanged.

    >>> plugrad.matrix_transpose([[1, 2], [3, 4]])
    tensor([[1, 3],
            [2, 4]], dtype=int32)

    Raises:
        ShapeError: the tensor has less than two axes.
    """
    x = _matrices(x, "matrix_transpose")
    return movement.transpose(x, perm=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def matrix_power(x: TensorLike, n: int, /) -> Tensor:
    """The product of square matrices with themselves `n` times; the inverse for negative n, the identity for 0.

    >>> plugrad.linalg.matrix_power([[1.0, 1.0], [0.0, 1.0]], 5)
    tensor([[1., 5.],
            [0., 1.]], dtype=float32)

    Raises:
        ShapeError: the matrices are not square.
        ArgumentValueError: n is negative and a matrix is singular.
    """
    x = _matrices(x, "matrix_power")
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"matrix_power: the matrices of shape {x.shape} must be square")
    n = whole(n, "matrix_power", "n")
    base, n = (inv(x), -n) if n < 0 else (x, n)
    result = None
    while n:  # by squaring
        if n & 1:
            result = base if result is None else matmul(result, base)
        n >>= 1
        base = matmul(base, base) if n else base
    if result is None:
        one = eye(x.shape[-1], dtype=x.dtype, device=x.backend)
        return movement.broadcast_to(one, shape=x.shape)
    return result


def diag(x: TensorLike) -> Tensor:
    """Zeros of shape ``x.shape + x.shape`` with x on the diagonal.

    >>> plugrad.diag([1, 2])
    tensor([[1, 0],
            [0, 2]], dtype=int32)
    """
    return linalg.diag(as_tensor(x, "diag"))


def diagonal(x: TensorLike, /, *, offset: int = 0) -> Tensor:
    """The diagonals of matrices, the last two axes; `offset` above the main one, or below if it is negative.

    >>> plugrad.linalg.diagonal([[1, 2], [3, 4]])
    tensor([1, 4], dtype=int32)

    Raises:
        ShapeError: the tensor has less than two axes.
    """
    return _diagonal(_matrices(x, "diagonal"), whole(offset, "diagonal", "offset"))


def _diagonal(x: Tensor, offset: int) -> Tensor:
    *batch, rows, columns = x.shape
    down, right = max(-offset, 0), max(offset, 0)
    size = max(0, min(rows - down, columns - right))
    flat = reshape(x, (*batch, rows * columns))
    first = down * columns + right
    places = slice(first, first + size * (columns + 1), columns + 1) if size else slice(0, 0)
    return flat[(..., places)]


def trace(x: TensorLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Tensor:
    """The sum of the `diagonal` of each matrix.

    >>> plugrad.linalg.trace([[1.0, 2.0], [3.0, 4.0]])
    tensor(5., dtype=float32)
    """
    x = _matrices(x, "trace")
    return sum(_diagonal(x, whole(offset, "trace", "offset")), axis=-1, dtype=dtype)


def tril(x: TensorLike, /, *, k: int = 0) -> Tensor:
    """The matrices with zeros above the `k`-th diagonal.

    >>> plugrad.tril([[1, 2], [3, 4]])
    tensor([[1, 0],
            [3, 4]], dtype=int32)

    Raises:
        ShapeError: the tensor has less than two axes.
    """
    x = _matrices(x, "tril")
    return where(less_equal(_offsets(x), _reach(k, "tril")), x, _zero(x))


def triu(x: TensorLike, /, *, k: int = 0) -> Tensor:
    """The matrices with zeros below the `k`-th diagonal.

    >>> plugrad.triu([[1, 2], [3, 4]])
    tensor([[1, 2],
            [0, 4]], dtype=int32)

    Raises:
        ShapeError: the tensor has less than two axes.
    """
    x = _matrices(x, "triu")
    return where(less_equal(_reach(k, "triu"), _offsets(x)), x, _zero(x))


def band_part(x: TensorLike, num_lower: int | TensorLike, num_upper: int | TensorLike) -> Tensor:
    """The matrices with zeros but for the diagonal, `num_lower` below it and `num_upper` above; negative: all.

    >>> plugrad.linalg.band_part([[1, 2, 3], [4, 5, 6], [7, 8, 9]], 0, 1)
    tensor([[1, 2, 0],
            [0, 5, 6],
            [0, 0, 9]], dtype=int32)

    Raises:
        ShapeError: the tensor has less than two axes.
        DTypeError: a number is not whole.
        ArgumentValueError: a number is larger than the matrices.
    """
    x = _matrices(x, "band_part")
    counts: list[Tensor] = []
    for name, given, size in zip(
        ("num_lower", "num_upper"), (num_lower, num_upper), x.shape[-2:], strict=True
    ):
        count = as_tensor(given, "band_part", name, backend=x.backend)
        if not count.dtype.is_integer or count.ndim:
            raise DTypeError(
                f"band_part: {name} is {count.dtype} of shape {count.shape}; it must be one whole number"
            )
        if isinstance(given, int) and given > size:
            raise ArgumentValueError(
                f"band_part: {name}={given} must not be greater than {size} (shape {x.shape}); "
                "a negative number keeps all"
            )
        counts.append(count if count.dtype is int32 else count.astype(int32))
    return linalg.band_part(x, *counts)


def _matrices(x: TensorLike, op: str) -> Tensor:
    x = as_tensor(x, op)
    if x.ndim < 2:
        raise ShapeError(f"{op}: shape {x.shape} must have two axes or more")
    return x


def _offsets(x: Tensor) -> Tensor:
    """Return how far right of the main diagonal each element of a matrix is."""
    rows, columns = x.shape[-2:]
    down = arange(rows, dtype=int32, device=x.backend)
    return arange(columns, dtype=int32, device=x.backend) - reshape(down, (rows, 1))


def _reach(k: int, op: str) -> int:
    """Return a number of diagonals as one that int32 holds; beyond it there are none."""
    return max(-(2**31), min(whole(k, op, "k"), 2**31 - 1))


def _zero(x: Tensor) -> Tensor:
    return constant(False if x.dtype.kind == "bool" else 0, x.dtype, x.backend)
