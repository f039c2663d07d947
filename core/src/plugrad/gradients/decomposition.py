"""Gradients of factorizations, after Giles (2008), Townsend (2016) and Seeger et al. (2017).

The literature gives the gradient for complex matrices, with Hermitian transposes; rules are plain
transposes (docs/notes/0006). So the rules whose kernel is not holomorphic conjugate dy and the result.
"""

from plugrad.errors import GradientNotFound
from plugrad.kernels import complex as parts, decomposition, movement
from plugrad.kernels.linalg import matmul
from plugrad.ops.binary import divide, equal, where
from plugrad.ops.complex import conj, real
from plugrad.ops.creation import eye, zeros_like
from plugrad.ops.linalg import tril
from plugrad.ops.reduction import sum
from plugrad.tape.rules import gradient
from plugrad.tensor.tensor import Tensor


def transposed(x: Tensor) -> Tensor:
    """Return the matrices with rows and columns exchanged."""
    order = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
    return movement.transpose(x, perm=order)


def adjoint(x: Tensor) -> Tensor:
    """Return the Hermitian transposes."""
    return conj(transposed(x))


def as_diagonal(x: Tensor) -> Tensor:
    """Return the last axis as diagonal matrices."""
    n = x.shape[-1]
    return movement.reshape(x, shape=(*x.shape, 1)) * eye(n, dtype=x.dtype, device=x.backend)


def diagonal(x: Tensor) -> Tensor:
    """Return the diagonals of square matrices."""
    return sum(x * eye(x.shape[-1], dtype=x.dtype, device=x.backend), axis=-1)


def column(x: Tensor) -> Tensor:
    """Return a number for each matrix as a matrix of one element."""
    return movement.reshape(x, shape=(*x.shape, 1, 1))


def row(x: Tensor) -> Tensor:
    """Return the last axis as matrices of one row."""
    return movement.reshape(x, shape=(*x.shape[:-1], 1, x.shape[-1]))


def like(x: Tensor, whole: Tensor) -> Tensor:
    """Return real numbers in the dtype of `whole`."""
    return parts.complex(x, zeros_like(x)) if whole.dtype.kind == "complex" else x


def _inverse(dy: Tensor, out: Tensor) -> Tensor:
    turned = transposed(out)
    return -matmul(matmul(turned, dy), turned)


def _solve_rhs(dy: Tensor, matrix: Tensor) -> Tensor:
    return decomposition.solve(transposed(matrix), dy)


def _solve_matrix(dy: Tensor, matrix: Tensor, out: Tensor) -> Tensor:
    return -matmul(_solve_rhs(dy, matrix), out, transpose_b=True)


def _determinant(dy: Tensor, input: Tensor, out: Tensor) -> Tensor:
    """Return dy times the cofactors, where the matrix has an inverse."""
    return column(dy * out) * transposed(decomposition.inverse(input))


def _log_determinant(dy: list[Tensor], input: Tensor, outs: list[Tensor]) -> Tensor:
    """Return the gradient through the logarithm; a complex determinant's sign turns, too."""
    d_sign, d_log = dy
    weight = like(d_log, input)
    if input.dtype.kind == "complex":
        turning = parts.imag(d_sign * outs[0])
        weight = weight + parts.complex(zeros_like(turning), turning)
    return column(weight) * transposed(decomposition.inverse(input))


gradient(decomposition.inverse, input=_inverse)
gradient(decomposition.solve, matrix=_solve_matrix, rhs=_solve_rhs)
gradient(decomposition.determinant, input=_determinant)
gradient(decomposition.log_determinant, input=_log_determinant)


def _hermitian(x: Tensor) -> Tensor:
    return (x + adjoint(x)) * 0.5


def _cholesky(dy: Tensor, out: Tensor) -> Tensor:
    dy, n = conj(dy), out.shape[-1]
    inner = matmul(adjoint(out), dy)
    below = tril(inner) - eye(n, dtype=out.dtype, device=out.backend) * inner * 0.5
    right = adjoint(decomposition.solve(adjoint(out), adjoint(below)))
    return conj(_hermitian(decomposition.solve(adjoint(out), right)))


def _eigh(dy: list[Tensor], outs: list[Tensor]) -> Tensor:
    d_values, d_vectors = conj(dy[0]), conj(dy[1])
    values, vectors = outs
    gaps = row(values) - movement.reshape(values, shape=(*values.shape, 1))
    turned = matmul(adjoint(vectors), d_vectors) * like(_reciprocal(gaps), vectors)
    inner = as_diagonal(like(d_values, vectors)) + turned
    return conj(_hermitian(matmul(matmul(vectors, inner), adjoint(vectors))))


def _svd(dy: list[Tensor], outs: list[Tensor], full_matrices: bool) -> Tensor:
    if full_matrices and outs[0].shape[-1] != outs[2].shape[-2]:
        raise GradientNotFound(
            "Svd: the columns beyond the singular values are not unique and have no gradient; "
            "use full_matrices=False"
        )
    (d_u, d_s, d_vh), (u, s, vh) = [conj(d) for d in dy], outs
    v, d_v = adjoint(vh), adjoint(d_vh)
    squares = s * s
    gaps = like(_reciprocal(row(squares) - movement.reshape(squares, shape=(*squares.shape, 1))), u)
    by_u, by_v = _skew(matmul(adjoint(u), d_u)), _skew(matmul(adjoint(v), d_v))
    scale = row(like(s, u))
    inner = (by_u * gaps) * scale + transposed(scale) * (by_v * gaps) + as_diagonal(like(d_s, u))
    if u.dtype.kind == "complex":
        inner = inner + as_diagonal(diagonal(by_u) / like(s, u) * 0.5)
    total = matmul(matmul(u, inner), vh)
    rows, columns, least = u.shape[-2], vh.shape[-1], s.shape[-1]
    if rows > least:
        free = d_u / scale
        total = total + matmul(free - matmul(u, matmul(adjoint(u), free)), vh)
    if columns > least:
        free = d_v / scale
        total = total + matmul(u, adjoint(free - matmul(v, matmul(vh, free))))
    return conj(total)


def _reciprocal(gaps: Tensor) -> Tensor:
    """Return 1 / gaps, and 0 where there is none, as on the diagonal."""
    is_zero = equal(gaps, 0)
    return where(is_zero, 0, divide(1, where(is_zero, 1, gaps)))


def _skew(x: Tensor) -> Tensor:
    return x - adjoint(x)


def _qr(dy: list[Tensor], outs: list[Tensor], full_matrices: bool) -> Tensor:
    (d_q, d_r), (q, r) = [conj(d) for d in dy], outs
    rows, columns = q.shape[-2], r.shape[-1]
    if q.shape[-1] > columns:
        raise GradientNotFound(
            "Qr: the columns of Q beyond those of R are not unique and have no gradient; "
            "use full_matrices=False"
        )
    if columns <= rows:
        return conj(_tall_qr(d_q, d_r, q, r))
    # the first columns determine Q, and Q the others
    others = d_r[..., rows:]
    d_q = d_q + matmul(matmul(q, r[..., rows:]), adjoint(others))
    first = _tall_qr(d_q, d_r[..., :rows], q, r[..., :rows])
    return conj(movement.concat(first, matmul(q, others), axis=q.ndim - 1))


def _tall_qr(d_q: Tensor, d_r: Tensor, q: Tensor, r: Tensor) -> Tensor:
    inner = matmul(r, adjoint(d_r)) - matmul(adjoint(d_q), q)
    below = tril(inner, k=-1)
    middle = below + adjoint(below) + as_diagonal(like(real(diagonal(inner)), q))
    return adjoint(decomposition.solve(r, adjoint(d_q + matmul(q, middle))))


gradient(decomposition.cholesky, input=_cholesky)
gradient(decomposition.eigh, input=_eigh)
gradient(decomposition.svd, input=_svd)
gradient(decomposition.qr, input=_qr)
