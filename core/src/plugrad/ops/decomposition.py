"""Factorizations of matrices, which are the last two axes, and what follows from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from plugrad.array_api import finfo
from plugrad.errors import ArgumentError, ShapeError
from plugrad.kernels import decomposition, linalg, movement
from plugrad.ops.arguments import as_tensor, coerced, promoted
from plugrad.ops.attributes import chosen, flag
from plugrad.ops.binary import divide, greater, where
from plugrad.ops.complex import conj
from plugrad.ops.movement import stack, unstack
from plugrad.ops.reduction import max, sum
from plugrad.ops.unary import sqrt
from plugrad.tensor.tensor import Tensor, TensorLike
from plugrad.types.dtype import REAL, int32
from plugrad.types.shapes import stretches

if TYPE_CHECKING:
    from collections.abc import Sequence


class EighResult(NamedTuple):
    """What `eigh` gives."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """What `qr` gives."""

    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    """What `slogdet` gives."""

    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    """What `svd` gives."""

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
    factor = decomposition.cholesky(coerced(x, decomposition.cholesky, "cholesky"))
    return _adjoint(factor) if flag(upper, "cholesky", "upper") else factor


def inv(x: TensorLike, /) -> Tensor:
    """The inverse of square matrices.

    >>> plugrad.linalg.inv([[2.0, 0.0], [0.0, 4.0]])
    tensor([[0.5 , 0.  ],
            [0.  , 0.25]], dtype=float32)

    Raises:
        ShapeError: the matrices are not square.
        ArgumentValueError: a matrix is singular.
    """
    return decomposition.inverse(coerced(x, decomposition.inverse, "inv"))


def solve(a: TensorLike, b: TensorLike, /) -> Tensor:
    """The solution x of ``a @ x = b``; b is one vector if it is 1-d, else matrices.

    >>> plugrad.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [1.0, 1.0])
    tensor([0.5 , 0.25], dtype=float32)

    Raises:
        ShapeError: the matrices are not square, or b has another number of rows.
        ArgumentValueError: a matrix is singular.
    """
    matrix, rhs = promoted(a, b, decomposition.solve, "solve")
    if rhs.ndim != 1:
        return decomposition.solve(matrix, rhs)
    x = decomposition.solve(matrix, movement.expand_dims(rhs, dim=1))
    return movement.reshape(x, shape=x.shape[:-1])


def det(x: TensorLike, /) -> Tensor:
    """The determinant of square matrices; its gradient needs their inverse.

    >>> plugrad.linalg.det([[1.0, 2.0], [3.0, 4.0]])
    tensor(-2., dtype=float32)

    Raises:
        ShapeError: the matrices are not square.
    """
    return decomposition.determinant(coerced(x, decomposition.determinant, "det"))


def slogdet(x: TensorLike, /) -> SlogdetResult:
    """The sign of the determinant and the logarithm of its absolute value, which cannot overflow.

    >>> plugrad.linalg.slogdet([[1.0, 0.0], [0.0, -1.0]]).sign
    tensor(-1., dtype=float32)

    Raises:
        ShapeError: the matrices are not square.
    """
    return SlogdetResult(
        *decomposition.log_determinant(coerced(x, decomposition.log_determinant, "slogdet"))
    )


def eigh(x: TensorLike, /) -> EighResult:
    """The eigenvalues of Hermitian matrices in ascending order, and eigenvectors as columns.

    >>> plugrad.linalg.eigh([[2.0, 0.0], [0.0, 1.0]]).eigenvalues
    tensor([1., 2.], dtype=float32)

    Eigenvectors are unique up to a factor, and where eigenvalues are equal not even that; only what
    does not depend on the choice has a meaningful gradient.

    Raises:
        ShapeError: the matrices are not square.
    """
    return EighResult(*decomposition.eigh(coerced(x, decomposition.eigh, "eigh")))


def eigvalsh(x: TensorLike, /) -> Tensor:
    """The eigenvalues of Hermitian matrices in ascending order.

    >>> plugrad.linalg.eigvalsh([[2.0, 0.0], [0.0, 1.0]])
    tensor([1., 2.], dtype=float32)
    """
    return eigh(x).eigenvalues


def svd(x: TensorLike, /, *, full_matrices: bool = True) -> SVDResult:
    """The factors U, S and Vh with ``x = U @ diag(S) @ Vh``; the singular values S descend.

    >>> plugrad.linalg.svd([[3.0, 0.0], [0.0, 4.0]]).S
    tensor([4., 3.], dtype=float32)

    Without `full_matrices` U and Vh have only as many columns and rows as there are singular
    values. The others have no gradient.

    Raises:
        ShapeError: the tensor has less than two axes.
    """
    x = coerced(x, decomposition.svd, "svd")
    is_full = flag(full_matrices, "svd", "full_matrices")
    return SVDResult(*decomposition.svd(x, full_matrices=is_full))


def svdvals(x: TensorLike, /) -> Tensor:
    """The singular values in descending order.

    >>> plugrad.linalg.svdvals([[3.0, 0.0], [0.0, 4.0]])
    tensor([4., 3.], dtype=float32)
    """
    return svd(x, full_matrices=False).S


def qr(x: TensorLike, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """The factors Q, whose columns are orthonormal, and R, upper triangular, with ``x = Q @ R``.

    >>> plugrad.linalg.qr([[3.0], [4.0]]).R
    tensor([[-5.]], dtype=float32)

    "reduced" gives Q as many columns as x has rows or columns, "complete" as many as x has rows.

    Raises:
        ShapeError: the tensor has less than two axes.
        ArgumentValueError: the mode is unknown.
    """
    chosen(mode, ("reduced", "complete"), "qr", "mode")
    x = coerced(x, decomposition.qr, "qr")
    return QRResult(*decomposition.qr(x, full_matrices=mode == "complete"))


def pinv(x: TensorLike, /, *, rtol: float | TensorLike | None = None) -> Tensor:
    """The Moore-Penrose inverse; singular values up to `rtol` times the largest count as 0.

    >>> plugrad.linalg.pinv([[2.0], [0.0]])
    tensor([[0.5, 0. ]], dtype=float32)

    `rtol` is by default the larger size of the matrix times the resolution of its dtype.
    """
    u, s, vh = svd(x, full_matrices=False)
    is_large = greater(s, _cutoff(s, u, vh, rtol, "pinv"))
    inverse = where(is_large, divide(1, where(is_large, s, 1)), 0).astype(u.dtype)
    columns = movement.reshape(inverse, shape=(*inverse.shape[:-1], 1, inverse.shape[-1]))
    return linalg.matmul(_adjoint(vh) * columns, _adjoint(u))


def matrix_rank(x: TensorLike, /, *, rtol: float | TensorLike | None = None) -> Tensor:
    """The number of singular values that are greater than `rtol` times the largest; see `pinv`.

    >>> plugrad.linalg.matrix_rank([[1.0, 1.0], [1.0, 1.0]])
    tensor(1, dtype=int32)
    """
    u, s, vh = svd(x, full_matrices=False)
    return sum(greater(s, _cutoff(s, u, vh, rtol, "matrix_rank")).astype(int32), axis=-1)


def _cutoff(s: Tensor, u: Tensor, vh: Tensor, rtol: float | TensorLike | None, op: str) -> Tensor:
    """Return the value from which on a singular value counts, for each matrix."""
    if rtol is None:
        rows, columns = u.shape[-2], vh.shape[-1]
        rtol = (rows if rows > columns else columns) * finfo(s.dtype).eps
    if s.shape[-1] == 0:
        return s
    largest = max(s, axis=-1, keepdims=True)
    factor = as_tensor(rtol, op, "rtol", backend=s.backend)
    if factor.dtype not in REAL or not stretches(factor.shape, s.shape[:-1]):
        raise ArgumentError(
            f"{op}: rtol is {factor.dtype} of shape {factor.shape}; it must be one number, or one for each "
            f"of the matrices, of shape {s.shape[:-1]}"
        )
    factor = factor.astype(s.dtype)
    return largest * movement.reshape(factor, shape=(*factor.shape, 1))


def gram_schmidt(xs: TensorLike | Sequence[Tensor]) -> Tensor | list[Tensor]:
    """Orthonormal vectors that span what the given vectors span, the first k of one what the first k of the other do.

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
    matrix = coerced(matrix, decomposition.inverse, "gram_schmidt")
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


def _adjoint(x: Tensor) -> Tensor:
    """Return the Hermitian transposes."""
    return conj(movement.transpose(x, perm=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)))
