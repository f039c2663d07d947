"""Factorizations of matrices, which are the last two axes, and what follows from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from plugrad.engine.results import alias
from plugrad.errors import ArgumentError, ShapeError
from plugrad.kernels import decomposition, linalg, movement
from plugrad.ops.arguments import as_supported_dtype, as_tensor, promote_operands
from plugrad.ops.attributes import check_choice, check_flag, check_integer
from plugrad.ops.binary import equal, greater, where
from plugrad.ops.complex import conj
from plugrad.ops.creation import arange, eye
from plugrad.ops.linalg import as_matrices, matmul
from plugrad.ops.movement import stack, unstack
from plugrad.ops.reduction import max, sum
from plugrad.ops.transfer import stop_gradient
from plugrad.ops.unary import abs, sqrt
from plugrad.tensor.tensor import Tensor, TensorLike
from plugrad.types.dtype import int32
from plugrad.types.shapes import broadcasts_to

if TYPE_CHECKING:
    from collections.abc import Sequence


class EigResult(NamedTuple):
    """The result of `eig`."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class LstsqResult(NamedTuple):
    """The result of `lstsq`."""

    x: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


class LUResult(NamedTuple):
    """The result of `lu`."""

    P: Tensor
    L: Tensor
    U: Tensor


class EighResult(NamedTuple):
    """The result of `eigh`."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """The result of `qr`."""

    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    """The result of `slogdet`."""

    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    """The result of `svd`."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def cholesky(x: TensorLike, /, *, upper: bool = False) -> Tensor:
    """The triangular factor L with ``L @ Lᴴ = x`` of Hermitian, positive definite matrices, or its adjoint.

    >>> plugrad.linalg.cholesky([[4.0, 2.0], [2.0, 5.0]])
    tensor([[2., 0.],
            [1., 2.]], dtype=float32)

    Raises:
        ShapeError: the matrices are not square.
        ArgumentValueError: a matrix is not positive definite.
    """
    factor = decomposition.cholesky(as_supported_dtype(x, decomposition.cholesky, "cholesky"))
    return _conjugate_transpose(factor) if check_flag(upper, "cholesky", "upper") else factor


def inv(x: TensorLike, /) -> Tensor:
    """The inverse of square matrices.

    >>> plugrad.linalg.inv([[2.0, 0.0], [0.0, 4.0]])
    tensor([[0.5 , 0.  ],
            [0.  , 0.25]], dtype=float32)

    Raises:
        ShapeError: the matrices are not square.
        ArgumentValueError: a matrix is singular.
    """
    return decomposition.inverse(as_supported_dtype(x, decomposition.inverse, "inv"))


def matrix_power(x: TensorLike, n: int, /) -> Tensor:
    """The `n`-th power of square matrices; a negative power is that of the inverse, power 0 the identity.

    >>> plugrad.linalg.matrix_power([[1.0, 1.0], [0.0, 1.0]], 5)
    tensor([[1., 5.],
            [0., 1.]], dtype=float32)

    The result has the shape and dtype of x; negative powers of integers and bools are float32.

    Raises:
        ShapeError: x has fewer than two axes, or the matrices are not square.
        DTypeError: x holds strings, or holds bools and `n` is greater than 1.
        ArgumentError: `n` is not an integer.
        ArgumentValueError: `n` is negative and a matrix is singular.
    """
    x = as_matrices(x, "matrix_power")
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"matrix_power: the matrices of shape {x.shape} must be square")
    n = check_integer(n, "matrix_power", "n")
    base, n = (inv(x), -n) if n < 0 else (x, n)
    result = None
    while n:  # exponentiation by squaring
        if n & 1:
            result = alias(base) if result is None else matmul(result, base)
        n >>= 1
        if n:
            base = matmul(base, base)
    if result is None:
        one = eye(x.shape[-1], dtype=x.dtype, device=x.backend)
        return movement.broadcast_to(one, shape=x.shape)
    return result


def solve(a: TensorLike, b: TensorLike, /) -> Tensor:
    """The solution x of ``a @ x = b``; b is one vector if it is 1-d, else matrices.

    >>> plugrad.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [1.0, 1.0])
    tensor([0.5 , 0.25], dtype=float32)

    Raises:
        ShapeError: the matrices are not square, or b has another number of rows.
        ArgumentValueError: a matrix is singular.
    """
    matrix, rhs = promote_operands(a, b, decomposition.solve, "solve")
    if rhs.ndim != 1:
        return decomposition.solve(matrix, rhs)
    x = decomposition.solve(matrix, movement.expand_dims(rhs, dim=1))
    return movement.reshape(x, shape=x.shape[:-1])


def solve_triangular(
    a: TensorLike,
    b: TensorLike,
    /,
    *,
    lower: bool = False,
    unit_diagonal: bool = False,
) -> Tensor:
    """The solution x of ``a @ x = b`` for triangular matrices; b is one vector if it is 1-d, else matrices.

    >>> plugrad.linalg.solve_triangular([[2.0, 1.0], [0.0, 4.0]], [4.0, 8.0])
    tensor([1., 2.], dtype=float32)

    Only the triangle is looked at: the upper one, or the lower one if `lower`. A 0 on the diagonal gives
    infinities or NaN. The axes before the matrices are broadcast, and the dtype is the one to which a and b promote.

    Args:
        a: square matrices (…, n, n).
        b: a vector (n), or matrices (…, n, columns).
        lower: whether the matrices are lower triangular.
        unit_diagonal: whether the diagonal counts as 1, whatever it holds.

    Raises:
        ShapeError: the matrices are not square, or b has another number of rows.
        DTypeError: a or b holds strings.
        ArgumentError: `lower` or `unit_diagonal` is not a bool.
    """
    op = "solve_triangular"
    lower = check_flag(lower, op, "lower")
    unit_diagonal = check_flag(unit_diagonal, op, "unit_diagonal")
    matrix, rhs = promote_operands(a, b, decomposition.triangular_solve, op)
    columns = movement.expand_dims(rhs, dim=1) if rhs.ndim == 1 else rhs
    x = decomposition.triangular_solve(matrix, columns, lower=lower, unit_diagonal=unit_diagonal)
    return movement.reshape(x, shape=x.shape[:-1]) if rhs.ndim == 1 else x


def lstsq(
    a: TensorLike, b: TensorLike, /, *, rcond: float | TensorLike | None = None
) -> LstsqResult:
    """The x for which the sum of the squares of ``b - a @ x`` is least, and of these the shortest.

    >>> plugrad.linalg.lstsq([[3.0], [4.0]], [6.0, 8.0]).x
    tensor([2.], dtype=float32)

    With x come these sums, one for each column of b, the rank of each matrix as int32, and the singular values.
    All of them have gradients but the rank; that of x is exact at any rank that does not change (see `pinv`).

    Args:
        a: matrices (…, rows, columns).
        b: a vector (rows), or matrices (…, rows, k).
        rcond: singular values up to `rcond` times the largest count as 0. By default it is the larger size of the
            matrix times the resolution of its dtype.

    Raises:
        ShapeError: a has fewer than two axes, or b another number of rows.
        DTypeError: a or b holds strings.
        ArgumentError: `rcond` is not a number, or one for each matrix.
    """
    matrix, rhs = promote_operands(a, b, decomposition.solve, "lstsq")
    is_vector = rhs.ndim == 1
    columns = movement.expand_dims(rhs, dim=1) if is_vector else rhs
    if matrix.ndim < 2 or columns.ndim < 2 or matrix.shape[-2] != columns.shape[-2]:
        raise ShapeError(
            f"lstsq: a of shape {matrix.shape} must be matrices, and b of shape {rhs.shape} have as many rows"
        )
    x = linalg.matmul(pinv(matrix, rtol=rcond), columns)
    squares = abs(columns - linalg.matmul(matrix, x)) ** 2
    residuals = sum(squares, axis=-2)
    if is_vector:
        x = movement.reshape(x, shape=x.shape[:-1])
        residuals = movement.reshape(residuals, shape=residuals.shape[:-1])
    return LstsqResult(x, residuals, matrix_rank(matrix, rtol=rcond), svdvals(matrix))


def lu(x: TensorLike, /) -> LUResult:
    """The factors P, a permutation, L, lower triangular, and U, upper triangular, with ``x = P @ L @ U``.

    >>> plugrad.linalg.lu([[1.0, 2.0], [2.0, 8.0]]).L
    tensor([[1. , 0. ],
            [0.5, 1. ]], dtype=float32)

    The diagonal of L is 1. L has as many columns, and U as many rows, as the smaller size of x. The rows are
    exchanged so that the largest element of each column divides; at ties between them the gradient is that of
    one order. The gradient of matrices whose first columns depend on each other is infinite or NaN.

    Raises:
        ShapeError: the tensor has fewer than two axes.
        DTypeError: it holds strings.
    """
    lower, upper, order = decomposition.lu(as_supported_dtype(x, decomposition.lu, "lu"))
    rows = lower.shape[-2]
    places = movement.reshape(order, shape=(*order.shape[:-1], 1, rows))
    numbers = arange(rows, dtype=int32, device=lower.backend)
    permutation = equal(places, movement.reshape(numbers, shape=(rows, 1)))
    return LUResult(permutation.astype(lower.dtype), lower, upper)


def eig(x: TensorLike, /) -> EigResult:
    """The eigenvalues of square matrices, and eigenvectors of length 1 as columns, which are complex.

    >>> plugrad.linalg.eig([[0.0, 1.0], [-1.0, 0.0]]).eigenvalues
    tensor([0.+1.j, 0.-1.j], dtype=complex64)

    The order is that of the method, and has no meaning. Eigenvectors are unique up to a complex factor of size 1.
    Results that depend on this factor, or on eigenvectors of equal eigenvalues, have the gradient NaN. A matrix
    without as many eigenvectors as rows has no gradient.

    `eigh` is for Hermitian matrices.

    Raises:
        ShapeError: the matrices are not square.
        DTypeError: they hold strings.
        ArgumentValueError: an element is not finite.
    """
    return EigResult(*decomposition.eig(as_supported_dtype(x, decomposition.eig, "eig")))


def eigvals(x: TensorLike, /) -> Tensor:
    """The eigenvalues of square matrices, which are complex.

    >>> plugrad.linalg.eigvals([[0.0, 1.0], [-1.0, 0.0]])
    tensor([0.+1.j, 0.-1.j], dtype=complex64)

    Raises:
        ShapeError, DTypeError, ArgumentValueError: as for `eig`.
    """
    return eig(x).eigenvalues


def det(x: TensorLike, /) -> Tensor:
    """The determinant of square matrices.

    >>> plugrad.linalg.det([[2.0, 1.0], [4.0, 6.0]])
    tensor(8., dtype=float32)

    The gradient exists at singular matrices too, where it is made of the cofactors.

    Raises:
        ShapeError: the matrices are not square.
    """
    return decomposition.determinant(as_supported_dtype(x, decomposition.determinant, "det"))


def slogdet(x: TensorLike, /) -> SlogdetResult:
    """The sign of the determinant and the logarithm of its absolute value, which cannot overflow.

    >>> plugrad.linalg.slogdet([[1.0, 0.0], [0.0, -1.0]]).sign
    tensor(-1., dtype=float32)

    A singular matrix gives 0 and -inf, and its gradient is NaN; that of `det` exists there.

    Raises:
        ShapeError: the matrices are not square.
    """
    return SlogdetResult(
        *decomposition.log_determinant(
            as_supported_dtype(x, decomposition.log_determinant, "slogdet")
        )
    )


def eigh(x: TensorLike, /) -> EighResult:
    """The eigenvalues of Hermitian matrices in ascending order, and eigenvectors as columns.

    >>> plugrad.linalg.eigh([[2.0, 0.0], [0.0, 1.0]]).eigenvalues
    tensor([1., 2.], dtype=float32)

    Eigenvectors are unique up to a factor. Where eigenvalues are equal, any basis of the same space will
    do. Only results that do not depend on this choice have a gradient. It is found at equal eigenvalues if
    the result depends either on the eigenvalues alone or on the eigenvectors alone, as a projection does.
    The gradient of other results is NaN at equal eigenvalues; different small numbers on the diagonal
    of x make them differ.

    Raises:
        ShapeError: the matrices are not square.
    """
    return EighResult(*decomposition.eigh(as_supported_dtype(x, decomposition.eigh, "eigh")))


def eigvalsh(x: TensorLike, /) -> Tensor:
    """The eigenvalues of Hermitian matrices in ascending order.

    >>> plugrad.linalg.eigvalsh([[2.0, 0.0], [0.0, 1.0]])
    tensor([1., 2.], dtype=float32)

    Equal eigenvalues have a gradient. Second derivatives with respect to them are NaN unless the
    first does not depend on the eigenvalues.

    Raises:
        ShapeError: the matrices are not square.
    """
    return eigh(x).eigenvalues


def svd(x: TensorLike, /, *, full_matrices: bool = True) -> SVDResult:
    """The factors U, S and Vh with ``x = U @ diag(S) @ Vh``; the singular values S descend.

    >>> plugrad.linalg.svd([[3.0, 0.0], [0.0, 4.0]]).S
    tensor([4., 3.], dtype=float32)

    Without `full_matrices` U and Vh have only as many columns and rows as there are singular
    values. Results that use the others have the gradient NaN: they only complete a basis. For equal
    singular values the same holds as for equal eigenvalues (see `eigh`), and also for those that are 0.

    Raises:
        ShapeError: the tensor has fewer than two axes.
    """
    x = as_supported_dtype(x, decomposition.svd, "svd")
    is_full = check_flag(full_matrices, "svd", "full_matrices")
    return SVDResult(*decomposition.svd(x, full_matrices=is_full))


def svdvals(x: TensorLike, /) -> Tensor:
    """The singular values in descending order.

    >>> plugrad.linalg.svdvals([[3.0, 0.0], [0.0, 4.0]])
    tensor([4., 3.], dtype=float32)

    Equal singular values have a gradient, and one that is 0 up to rounding has the gradient 0, as `abs`
    does; it is NaN if that of the result is infinite there. Second derivatives are as for `eigvalsh`.

    Raises:
        ShapeError: the tensor has fewer than two axes.
    """
    return svd(x, full_matrices=False).S


def qr(x: TensorLike, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """The factors Q, whose columns are orthonormal, and R, upper triangular, with ``x = Q @ R``.

    >>> plugrad.linalg.qr([[3.0], [4.0]]).R
    tensor([[-5.]], dtype=float32)

    "reduced" gives Q as many columns as x has rows or columns, "complete" as many as x has rows.
    Results that use the additional ones have the gradient NaN, and so have results of a matrix of which
    a column depends on those before it.

    Raises:
        ShapeError: the tensor has fewer than two axes.
        ArgumentValueError: the mode is unknown.
    """
    check_choice(mode, ("reduced", "complete"), "qr", "mode")
    x = as_supported_dtype(x, decomposition.qr, "qr")
    return QRResult(*decomposition.qr(x, full_matrices=mode == "complete"))


def pinv(x: TensorLike, /, *, rtol: float | TensorLike | None = None) -> Tensor:
    """The Moore-Penrose inverse; singular values up to `rtol` times the largest count as 0.

    >>> plugrad.linalg.pinv([[2.0], [0.0]])
    tensor([[0.5, 0. ]], dtype=float32)

    `rtol` is by default the larger size of the matrix times the resolution of its dtype. Where singular
    values count as 0, the gradient is the derivative along changes of the matrix that keep it so (Golub
    and Pereyra, 1973). Second derivatives at equal singular values of a matrix that has no inverse are NaN.

    Raises:
        ShapeError: the tensor has fewer than two axes.
        ArgumentError: `rtol` is not a number, or one for each matrix.
    """
    x = as_supported_dtype(x, decomposition.svd, "pinv")
    u, s, vh = svd(x, full_matrices=False)
    is_large = greater(s, _singular_value_cutoff(s, u, vh, rtol, "pinv"))
    u, v = _zero_small_vectors(u, is_large), _zero_small_vectors(_conjugate_transpose(vh), is_large)
    # Between the vectors, x is a diagonal matrix of the singular values, but unlike these it is also
    # differentiable where they are equal.
    middle = linalg.matmul(linalg.matmul(_conjugate_transpose(u), x), v)
    sizes = where(is_large, stop_gradient(s), 1).astype(u.dtype)
    unit = eye(sizes.shape[-1], dtype=u.dtype, device=u.backend)
    middle = unit * sizes[..., None, :] + (middle - stop_gradient(middle))
    return linalg.matmul(linalg.matmul(v, decomposition.inverse(middle)), _conjugate_transpose(u))


def _zero_small_vectors(vectors: Tensor, is_large: Tensor) -> Tensor:
    """Return the singular vectors, with zeros in place of those of small singular values.

    Their gradient depends on what they span, not on which vectors of equal singular values they are.
    If they span everything, they are constants.
    """
    kept = where(is_large[..., None, :], vectors, 0)
    spanning = linalg.matmul(kept, linalg.matmul(_conjugate_transpose(kept), stop_gradient(kept)))
    if vectors.shape[-2] != vectors.shape[-1]:
        return spanning
    spans_all = sum(is_large.astype(int32), axis=-1) == is_large.shape[-1]
    return where(spans_all[..., None, None], stop_gradient(vectors), spanning)


def matrix_rank(x: TensorLike, /, *, rtol: float | TensorLike | None = None) -> Tensor:
    """The number of singular values that are greater than `rtol` times the largest; see `pinv`.

    >>> plugrad.linalg.matrix_rank([[1.0, 1.0], [1.0, 1.0]])
    tensor(1, dtype=int32)

    Raises:
        ShapeError: the tensor has fewer than two axes.
        ArgumentError: `rtol` is not a number, or one for each matrix.
    """
    u, s, vh = svd(x, full_matrices=False)
    return sum(
        greater(s, _singular_value_cutoff(s, u, vh, rtol, "matrix_rank")).astype(int32), axis=-1
    )


def _singular_value_cutoff(
    s: Tensor, u: Tensor, vh: Tensor, rtol: float | TensorLike | None, op: str
) -> Tensor:
    """Return each matrix's cutoff, below which singular values count as 0."""
    if rtol is None:
        rows, columns = u.shape[-2], vh.shape[-1]
        rtol = (rows if rows > columns else columns) * float(np.finfo(s.dtype.numpy).eps)
    if s.shape[-1] == 0:
        return s
    largest = max(s, axis=-1, keepdims=True)
    factor = as_tensor(rtol, op, "rtol", backend=s.backend)
    if factor.dtype.kind not in ("signed", "unsigned", "floating") or not broadcasts_to(
        factor.shape, s.shape[:-1]
    ):
        raise ArgumentError(
            f"{op}: rtol is {factor.dtype} of shape {factor.shape}; it must be one number, or one for each "
            f"of the matrices, of shape {s.shape[:-1]}"
        )
    factor = factor.astype(s.dtype)
    return largest * movement.reshape(factor, shape=(*factor.shape, 1))


def gram_schmidt(xs: TensorLike | Sequence[Tensor]) -> Tensor | list[Tensor]:
    """Orthonormal vectors whose first k span the same space as the first k given vectors, for every k.

    >>> plugrad.linalg.gram_schmidt([[2.0, 0.0], [1.0, 3.0]])
    tensor([[1., 0.],
            [0., 1.]], dtype=float32)

    Vectors are the rows of a matrix, or a list of 1-d tensors, which gives a list. One that depends
    on those before it gives NaN.

    Raises:
        ShapeError: there are no vectors, more vectors than elements, or they are not 1-d.
    """
    is_list = isinstance(xs, list | tuple) and all(isinstance(x, Tensor) for x in xs)
    if is_list and len({x.shape for x in xs}) > 1:  # type: ignore[union-attr]
        raise ShapeError(
            f"gram_schmidt: vectors of shapes {[x.shape for x in xs]} must be equally long"  # type: ignore[union-attr]
        )
    matrix = stack(xs) if is_list and len(xs) else as_tensor(xs, "gram_schmidt")  # type: ignore[arg-type]
    matrix = as_supported_dtype(matrix, decomposition.inverse, "gram_schmidt")
    if matrix.ndim != 2 or not 0 < matrix.shape[0] <= matrix.shape[1]:
        raise ShapeError(
            f"gram_schmidt: shape {matrix.shape} must be (vectors, elements) with at least one vector "
            "and not more vectors than elements"
        )
    found: list[Tensor] = []
    for x in unstack(matrix):
        for direction in found:
            x = x - sum(conj(direction) * x) * direction
        length = sqrt(sum(x * conj(x)))
        found.append(x / length)
    return found if is_list else stack(found)


def _conjugate_transpose(x: Tensor) -> Tensor:
    """Return the conjugate transposes of matrices."""
    return conj(movement.transpose(x, perm=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)))
