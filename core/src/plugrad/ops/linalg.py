"""Products and parts of matrices; with factorizations and norms they are the namespace `plugrad.linalg`.

Dtypes are promoted. An argument that does not convert to a tensor raises ArgumentError, and tensors
on different backends raise BackendMismatch.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Final, TypeAlias

from plugrad.contract.kernel import ValidatedAttributes
from plugrad.errors import ArgumentValueError, AxisError, DTypeError, ShapeError, short_repr
from plugrad.kernels import binary, linalg, movement, reduction
from plugrad.ops.arguments import (
    as_tensor,
    cached_constant,
    cast,
    promote_operands,
)
from plugrad.ops.attributes import as_list, check_flag, check_integer, is_sequence
from plugrad.ops.binary import less_equal, multiply, where
from plugrad.ops.complex import conj
from plugrad.ops.creation import arange
from plugrad.ops.movement import concat, moveaxis, reshape
from plugrad.ops.reduction import sum
from plugrad.tensor.tensor import Tensor
from plugrad.types.arguments import explain_wrong_calls
from plugrad.types.dtype import STRING, as_dtype, bool_, equivalents, int32, string
from plugrad.types.shapes import normalize_axis
from plugrad.types.specs import Shaped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.tensor.tensor import TensorLike
    from plugrad.types.dtype import DTypeLike
    from plugrad.types.specs import Shape

    PairedAxes: TypeAlias = int | tuple[Sequence[int], Sequence[int]]
    """The number of axes that `tensordot` sums over, or the axes of a and of b."""


def matmul(
    a: TensorLike, b: TensorLike, /, transpose_a: bool = False, transpose_b: bool = False
) -> Tensor:
    """The matrix product of the last two axes; the axes before them are broadcast.

    >>> plugrad.matmul([[1.0, 2.0], [3.0, 4.0]], [[1.0], [10.0]])
    tensor([[21.],
            [43.]], dtype=float32)

    The result has the dtype to which a and b promote. A 1-d operand is a row vector on the left and
    a column vector on the right; the result does not have its axis.

    Args:
        a: the left matrices.
        b: the right matrices.
        transpose_a: whether the last two axes of a are exchanged first.
        transpose_b: whether the last two axes of b are exchanged first.

    Raises:
        DTypeError: both operands hold bools, one holds strings, or no dtype holds both.
        ShapeError: an operand is 0-d, the inner sizes differ, or the other axes do not broadcast.
        ArgumentError: `transpose_a` or `transpose_b` is not a bool.
    """
    x, y = promote_operands(a, b, linalg.matmul, "matmul")
    if transpose_a is not False or transpose_b is not False:  # most products skip this check
        transpose_a = check_flag(transpose_a, "matmul", "transpose_a")
        transpose_b = check_flag(transpose_b, "matmul", "transpose_b")
    left, right = x.array.shape, y.array.shape
    x_rank, y_rank = len(left), len(right)
    if x_rank == 0 or y_rank == 0:
        raise ShapeError(
            f"matmul: shapes {x.shape} and {y.shape} must have an axis; use multiply for scalars"
        )
    if x_rank > 1 and y_rank > 1:
        attrs = _matmul_attributes(left, right, x.array.dtype, transpose_a, transpose_b)
        return linalg.matmul.call(x, y, attrs)
    if x_rank == y_rank and left == right and left[0] <= _MAX_SUMMED_VECTOR_LENGTH:
        return reduction.sum.call(binary.multiply.call(x, y), _SUM_OF_VECTOR_ATTRIBUTES)
    dtype = x.array.dtype
    product, result = _plan_vector_product(left, right, dtype, transpose_a, transpose_b)
    rows = x if x_rank > 1 else movement.expand_dims.call(x, _VECTOR_TO_ROW_ATTRIBUTES)
    columns = y if y_rank > 1 else movement.expand_dims.call(y, _VECTOR_TO_COLUMN_ATTRIBUTES)
    return movement.reshape.call(linalg.matmul.call(rows, columns, product), result)


_SUM_OF_VECTOR_ATTRIBUTES: Final = ValidatedAttributes(axis=(0,), keep_dims=False)
"""The attributes of the kernel `sum` for all elements of a vector."""
_VECTOR_TO_ROW_ATTRIBUTES: Final = ValidatedAttributes(dim=0)
"""The attributes of the kernel `expand_dims` that make a vector the only row of a matrix."""
_VECTOR_TO_COLUMN_ATTRIBUTES: Final = ValidatedAttributes(dim=1)
"""The attributes of the kernel `expand_dims` that make a vector the only column of a matrix."""


@lru_cache(maxsize=1024)
def _plan_vector_product(
    left_shape: Shape, right_shape: Shape, dtype: object, transpose_a: bool, transpose_b: bool
) -> tuple[ValidatedAttributes, ValidatedAttributes]:
    """Return the attributes of `matmul` for one or two vectors as operands, and of the reshape of its result."""
    kind = as_dtype(dtype)
    rows = left_shape if len(left_shape) > 1 else (1, *left_shape)
    columns = right_shape if len(right_shape) > 1 else (*right_shape, 1)
    turned = transpose_a and len(left_shape) > 1, transpose_b and len(right_shape) > 1
    try:
        product = _matmul_attributes(rows, columns, dtype, *turned)
    except ShapeError:  # it names the shapes of the matrices
        raise ShapeError(
            f"matmul: shapes {left_shape} and {right_shape} do not match: a vector must be as long as the last axis of "
            "its left neighbour, or the second-to-last axis of its right neighbour"
        ) from None
    whole = linalg.matmul.infer(Shaped(rows, kind), Shaped(columns, kind), **product)
    *shape, height, width = whole.shape
    shape += [height] * (len(left_shape) > 1) + [width] * (len(right_shape) > 1)
    return product, movement.reshape.validate_attributes(whole, shape=tuple(shape))


_MAX_SUMMED_VECTOR_LENGTH: Final = 1024
"""The maximum length of two vectors for which multiplying and summing takes half the time of a matrix product."""


@lru_cache(maxsize=1024)
def _matmul_attributes(
    left_shape: Shape, right_shape: Shape, dtype: object, transpose_a: bool, transpose_b: bool
) -> ValidatedAttributes:
    """Return the validated attributes of `matmul` for operands of two shapes and one dtype."""
    x, y = (Shaped(shape, as_dtype(dtype)) for shape in (left_shape, right_shape))
    return linalg.matmul.validate_attributes(x, y, transpose_a=transpose_a, transpose_b=transpose_b)


def dot(a: TensorLike, b: TensorLike) -> Tensor:
    """The product of two vectors (a 0-d tensor), of a matrix and a vector, or of two matrices.

    >>> plugrad.dot([1.0, 2.0], [3.0, 4.0])
    tensor(11., dtype=float32)

    The result has the dtype to which a and b promote.

    Raises:
        DTypeError: both operands hold bools, one holds strings, or no dtype holds both.
        ShapeError: an operand does not have one or two axes, or the inner sizes differ.
    """
    x, y = promote_operands(a, b, linalg.matmul, "dot")
    if x.ndim not in (1, 2) or y.ndim not in (1, 2):
        raise ShapeError(
            f"dot: shapes {x.shape} and {y.shape} must have one or two axes; use matmul for more"
        )
    return matmul(x, y)


def outer(a: TensorLike, b: TensorLike, /) -> Tensor:
    """The matrix of the products of each element of a vector (the row) and each of another (the column).

    >>> plugrad.linalg.outer([1.0, 2.0], [3.0, 4.0, 5.0])
    tensor([[ 3.,  4.,  5.],
            [ 6.,  8., 10.]], dtype=float32)

    The result has the dtype to which a and b promote.

    Raises:
        DTypeError: both operands hold bools, one holds strings, or no dtype holds both.
        ShapeError: an operand is not 1-d.
    """
    x, y = promote_operands(a, b, binary.multiply, "outer")
    if x.ndim != 1 or y.ndim != 1:
        raise ShapeError(f"outer: shapes {x.shape} and {y.shape} must have one axis each")
    return multiply(movement.expand_dims(x, dim=1), y)


@explain_wrong_calls
def vecdot(a: TensorLike, b: TensorLike, /, *, axis: int = -1) -> Tensor:
    """The sum of the products ``conj(a) * b`` along an axis.

    >>> plugrad.vecdot([[1.0, 2.0], [3.0, 4.0]], [10.0, 1.0])
    tensor([12., 34.], dtype=float32)

    The result has the dtype to which a and b promote; their other axes are broadcast.

    Raises:
        DTypeError: both operands hold bools, one holds strings, or no dtype holds both.
        ShapeError: the operands have different sizes along the axis, or the other axes do not
            broadcast.
        AxisError: an operand does not have the axis.
    """
    x, y = promote_operands(a, b, binary.multiply, "vecdot")
    axis_x = normalize_axis(axis, x.ndim, name="vecdot: axis")
    axis_y = normalize_axis(axis, y.ndim, name="vecdot: axis")
    if x.shape[axis_x] != y.shape[axis_y]:
        raise ShapeError(
            f"vecdot: sizes {x.shape[axis_x]} and {y.shape[axis_y]} along axis {axis} must be equal "
            f"(shapes {x.shape} and {y.shape})"
        )
    products = moveaxis(conj(x), axis_x, -1) * moveaxis(y, axis_y, -1)
    return sum(products, axis=-1, dtype=products.dtype)


@explain_wrong_calls
def tensordot(a: TensorLike, b: TensorLike, /, *, axes: PairedAxes = 2) -> Tensor:
    """The sum of the products of a and b along pairs of axes.

    >>> plugrad.tensordot([[1.0, 2.0], [3.0, 4.0]], [[1.0, 0.0], [0.0, 1.0]], axes=2)
    tensor(5., dtype=float32)

    The result has the other axes of a, then those of b, and the dtype to which a and b promote.

    Args:
        a: the first operand.
        b: the second operand.
        axes: a number n, which pairs the last n axes of a with the first n axes of b, or the axes
            of a and the axes of b as two lists of one length.

    Raises:
        DTypeError: both operands hold bools, one holds strings, or no dtype holds both.
        ShapeError: the sizes of a pair of axes, or the lengths of the lists, differ.
        AxisError: an axis is out of range or named twice.
        ArgumentError: `axes` are not integers.
        ArgumentValueError: `axes` is a number out of range, or not two lists.
    """
    x, y = promote_operands(a, b, linalg.matmul, "tensordot")
    if is_sequence(axes):
        lists = as_list(axes, "tensordot", "axes")
        if len(lists) != 2:
            raise ArgumentValueError(
                f"tensordot: axes={short_repr(axes)} must be a number, or two lists of axes"
            )
        given_x, given_y = (as_list(part, "tensordot", "axes") for part in lists)
        axes_x = [normalize_axis(i, x.ndim, name="tensordot: axes") for i in given_x]
        axes_y = [normalize_axis(i, y.ndim, name="tensordot: axes") for i in given_y]
        if any(len(set(found)) != len(found) for found in (axes_x, axes_y)):
            raise AxisError(f"tensordot: axes={short_repr(axes)} names an axis twice")
    else:
        count = check_integer(axes, "tensordot", "axes")
        if not 0 <= count <= min(x.ndim, y.ndim):
            raise ArgumentValueError(
                f"tensordot: axes={short_repr(count)} must be between 0 and the ranks {x.ndim} and {y.ndim}"
            )
        axes_x = list(range(x.ndim - count, x.ndim))
        axes_y = list(range(count))
    if [x.shape[i] for i in axes_x] != [y.shape[i] for i in axes_y]:
        raise ShapeError(
            f"tensordot: axes {axes_x} of shape {x.shape} do not match axes {axes_y} of shape {y.shape}"
        )
    free_x = [i for i in range(x.ndim) if i not in axes_x]
    free_y = [i for i in range(y.ndim) if i not in axes_y]
    rows = movement.transpose(x, perm=(*free_x, *axes_x))
    columns = movement.transpose(y, perm=(*axes_y, *free_y))
    shape = (*(x.shape[i] for i in free_x), *(y.shape[i] for i in free_y))
    inner = prod(x.shape[i] for i in axes_x)
    product = linalg.matmul(
        reshape(rows, (prod(x.shape[i] for i in free_x), inner)),
        reshape(columns, (inner, prod(y.shape[i] for i in free_y))),
    )
    return reshape(product, shape)


@explain_wrong_calls
def cross(a: TensorLike, b: TensorLike, /, *, axis: int = -1) -> Tensor:
    """The cross product of vectors with three elements along an axis.

    >>> plugrad.linalg.cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
    tensor([0., 0., 1.], dtype=float32)

    The result has the dtype to which a and b promote; their other axes are broadcast.

    Raises:
        DTypeError: both operands hold bools, one holds strings, or no dtype holds both.
        ShapeError: a size along the axis is not 3, or the other axes do not broadcast.
        AxisError: an operand does not have the axis.
    """
    x, y = promote_operands(a, b, binary.multiply, "cross")
    x = moveaxis(x, normalize_axis(axis, x.ndim, name="cross: axis"), -1)
    y = moveaxis(y, normalize_axis(axis, y.ndim, name="cross: axis"), -1)
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        raise ShapeError(
            f"cross: the vectors must have 3 elements along axis {axis}, not {x.shape[-1]} and {y.shape[-1]}"
        )
    x0, x1, x2 = (x[..., i : i + 1] for i in range(3))
    y0, y1, y2 = (y[..., i : i + 1] for i in range(3))
    parts = [x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0]
    return moveaxis(concat(parts, axis=-1), -1, axis)


def matrix_transpose(x: TensorLike, /) -> Tensor:
    """The matrices on the last two axes with rows and columns exchanged, in the dtype of x.

    >>> plugrad.matrix_transpose([[1, 2], [3, 4]])
    tensor([[1, 3],
            [2, 4]], dtype=int32)

    Raises:
        ShapeError: x has fewer than two axes.
    """
    x = as_matrices(x, "matrix_transpose")
    return movement.transpose(x, perm=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def diag(x: TensorLike) -> Tensor:
    """Zeros of shape ``x.shape + x.shape`` with x on the diagonal, in the dtype of x.

    >>> plugrad.diag([1, 2])
    tensor([[1, 0],
            [0, 2]], dtype=int32)

    Raises:
        ArgumentError: x does not convert to a tensor.
        OutOfMemory: the result does not fit into memory.
    """
    return linalg.diag(as_tensor(x, "diag"))


def diagonal(x: TensorLike, /, *, offset: int = 0) -> Tensor:
    """The diagonals of the matrices on the last two axes, along a new last axis, in the dtype of x.

    >>> plugrad.linalg.diagonal([[1, 2], [3, 4]])
    tensor([1, 4], dtype=int32)

    Args:
        x: the matrices.
        offset: 0 means the main diagonal, a positive number one above it, a negative number one
            below.

    Raises:
        ShapeError: x has fewer than two axes.
        ArgumentError: `offset` is not an integer.
    """
    return _diagonal(as_matrices(x, "diagonal"), check_integer(offset, "diagonal", "offset"))


def _diagonal(x: Tensor, offset: int) -> Tensor:
    """Return the elements of a diagonal: every (columns + 1)-th one of the matrices laid out in one row."""
    *batch, rows, columns = x.shape
    down = max(-offset, 0)
    right = max(offset, 0)
    size = max(0, min(rows - down, columns - right))
    flat = reshape(x, (*batch, rows * columns))
    first = down * columns + right
    places = slice(first, first + size * (columns + 1), columns + 1) if size else slice(0, 0)
    return flat[(..., places)]


def trace(x: TensorLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Tensor:
    """The sum of the `diagonal` of each matrix on the last two axes.

    >>> plugrad.linalg.trace([[1.0, 2.0], [3.0, 4.0]])
    tensor(5., dtype=float32)

    `offset` is as for `diagonal`. Unless `dtype` names another one, the result has the dtype that
    `plugrad.sum` gives: bools and small integers are added as int32, or as uint32 if they are
    unsigned.

    Raises:
        ShapeError: x has fewer than two axes.
        DTypeError: x holds strings, or `dtype` is not a dtype or is string.
        UnsupportedDtype: the backend does not have the dtype.
        ArgumentError: `offset` is not an integer.
    """
    x = as_matrices(x, "trace")
    return sum(_diagonal(x, check_integer(offset, "trace", "offset")), axis=-1, dtype=dtype)


def tril(x: TensorLike, /, *, k: int = 0) -> Tensor:
    """The matrices on the last two axes with zeros above the `k`-th diagonal, in the shape and dtype of x.

    >>> plugrad.tril([[1, 2], [3, 4]])
    tensor([[1, 0],
            [3, 4]], dtype=int32)

    Diagonal 0 is the main one, positive ones lie above it, negative ones below. Strings become
    empty.

    Raises:
        ShapeError: x has fewer than two axes.
        ArgumentError: `k` is not an integer.
    """
    x = as_matrices(x, "tril")
    k = _check_diagonal(k, "tril")
    if k >= 0 and x.array.dtype not in _STRING_DTYPES:
        return _apply_band(x, -1, k)
    return where(less_equal(_diagonal_numbers(x), k), x, _zero_like(x))


def triu(x: TensorLike, /, *, k: int = 0) -> Tensor:
    """The matrices on the last two axes with zeros below the `k`-th diagonal, in the shape and dtype of x.

    >>> plugrad.triu([[1, 2], [3, 4]])
    tensor([[1, 2],
            [0, 4]], dtype=int32)

    Diagonal 0 is the main one, positive ones lie above it, negative ones below. Strings become
    empty.

    Raises:
        ShapeError: x has fewer than two axes.
        ArgumentError: `k` is not an integer.
    """
    x = as_matrices(x, "triu")
    k = _check_diagonal(k, "triu")
    if k <= 0 and x.array.dtype not in _STRING_DTYPES:
        return _apply_band(x, -k, -1)
    return where(less_equal(k, _diagonal_numbers(x)), x, _zero_like(x))


def _apply_band(x: Tensor, num_lower: int, num_upper: int) -> Tensor:
    """Return x with zeros outside a band: numbers of diagonals below and above the main one, -1 for all of them."""
    backend = x.backend
    # the callers have checked all that the contract asks for
    return linalg.band_part.call(
        x, cached_constant(num_lower, int32, backend), cached_constant(num_upper, int32, backend)
    )


_STRING_DTYPES: Final = equivalents(STRING)
"""The spellings of the dtype string: plugrad's and NumPy's."""


def band_part(x: TensorLike, num_lower: TensorLike, num_upper: TensorLike) -> Tensor:
    """The matrices on the last two axes with zeros outside a band of diagonals, in the shape and dtype of x.

    >>> plugrad.linalg.band_part([[1, 2, 3], [4, 5, 6], [7, 8, 9]], 0, 1)
    tensor([[1, 2, 0],
            [0, 5, 6],
            [0, 0, 9]], dtype=int32)

    Args:
        x: the matrices.
        num_lower: the number of diagonals that are kept below the main one; negative means all.
        num_upper: the number of diagonals that are kept above the main one; negative means all.

    Raises:
        ShapeError: x has fewer than two axes.
        DTypeError: a number is not an integer.
        ArgumentValueError: a number is larger than the matrices.
    """
    x = as_matrices(x, "band_part")
    rows, columns = x.shape[-2:]
    lower = _band_width(num_lower, "num_lower", rows, x)
    upper = _band_width(num_upper, "num_upper", columns, x)
    return linalg.band_part(x, lower, upper)


def _band_width(
    diagonal_count: TensorLike, argument_name: str, max_count: int, x: Tensor
) -> Tensor:
    """Return a number of diagonals, which is an argument of `band_part`, as a 0-d int32 tensor.

    Raises:
        DTypeError: it is not one integer.
        ArgumentValueError: a Python integer is greater than `max_count`.
    """
    count = as_tensor(diagonal_count, "band_part", argument_name, backend=x.backend)
    if not count.dtype.is_integer or count.ndim:
        raise DTypeError(
            f"band_part: {argument_name} is {count.dtype} of shape {count.shape}; it must be one integer"
        )
    if isinstance(diagonal_count, int) and diagonal_count > max_count:
        raise ArgumentValueError(
            f"band_part: {argument_name}={diagonal_count} must not be greater than {max_count} (shape {x.shape}); "
            "a negative number keeps all"
        )
    return cast(count, int32)


def as_matrices(x: TensorLike, op: str) -> Tensor:
    """Return x as a tensor of matrices.

    Raises:
        ShapeError: it has fewer than two axes.
    """
    if not isinstance(x, Tensor):
        x = as_tensor(x, op)
    if len(x.array.shape) < 2:
        raise ShapeError(f"{op}: shape {x.shape} must have two axes or more")
    return x


def _diagonal_numbers(x: Tensor) -> Tensor:
    """Return the number of the diagonal of each element of a matrix: 0 for the main one, positive above it."""
    rows, columns = x.shape[-2:]
    down = arange(rows, dtype=int32, device=x.backend)
    return arange(columns, dtype=int32, device=x.backend) - reshape(down, (rows, 1))


def _check_diagonal(k: int, op: str) -> int:
    """Return the number of a diagonal, clamped so that it and its negative are int32."""
    if type(k) is int and -(2**31) < k < 2**31:
        return k
    return max(1 - 2**31, min(check_integer(k, op, "k"), 2**31 - 1))


def _zero_like(x: Tensor) -> Tensor:
    """Return 0, False or an empty string, in the dtype of x."""
    if x.dtype is string:
        return as_tensor("", "zero", backend=x.backend)
    return cached_constant(False if x.dtype is bool_ else 0, x.dtype, x.backend)
