"""Gradients of factorizations, after Giles (2008), Townsend (2016) and Seeger et al. (2017).

The literature gives the gradient for complex matrices, with Hermitian transposes. Rules are plain
transposes (docs/notes/0006), so the rules whose kernel is not holomorphic conjugate dy and the result.

Some gradients do not exist at singular matrices or at equal eigenvalues. These kernels run on the
host, so their rules read values there and raise an error instead of returning NaN.
"""

from collections.abc import Mapping
from functools import cache, lru_cache
from math import log, prod
from typing import Any

import numpy as np

from plugrad.errors import ArgumentValueError, GradientNotFound
from plugrad.host import format_values
from plugrad.kernels import complex as parts, decomposition, indexing, movement
from plugrad.kernels.linalg import matmul
from plugrad.ops.binary import divide, where
from plugrad.ops.complex import conj, real
from plugrad.ops.creation import asarray, eye, zeros_like
from plugrad.ops.linalg import tril
from plugrad.ops.reduction import sum
from plugrad.ops.transfer import stop_gradient
from plugrad.ops.unary import round
from plugrad.tape.rules import GradientConfig, gradient, register_gradient
from plugrad.tensor.tensor import Tensor, host_values

Array = np.ndarray[Any, Any]


def transpose_matrices(x: Tensor) -> Tensor:
    """Return the matrices with rows and columns exchanged."""
    order = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
    return movement.transpose(x, perm=order)


def adjoint(x: Tensor) -> Tensor:
    """Return the Hermitian transposes."""
    return conj(transpose_matrices(x))


def diagonal_matrix(x: Tensor) -> Tensor:
    """Return diagonal matrices with the last axis on their diagonals."""
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


def cast_like(x: Tensor, whole: Tensor) -> Tensor:
    """Cast real numbers to the dtype of `whole`."""
    return parts.complex(x, zeros_like(x)) if whole.dtype.kind == "complex" else x


def constant_like(values: Array, x: Tensor) -> Tensor:
    """Copy host values to the device of `x`, as a constant."""
    return asarray(values, device=x.backend)


def identity_like(x: Tensor) -> Tensor:
    """Return the identity matrix in the size and dtype of the matrices `x`."""
    return eye(x.shape[-1], dtype=x.dtype, device=x.backend)


def zero_tolerance(x: Tensor | Array) -> float:
    """Return the fraction of the largest value below which a value counts as 0, which exceeds the rounding error."""
    return 32 * machine_epsilon(x)


def machine_epsilon(x: Tensor | Array) -> float:
    """Return the machine epsilon of a dtype."""
    return float(np.finfo(np.dtype(str(x.dtype))).eps)


def safe_reciprocal(x: Tensor, is_pole: Array) -> Tensor:
    """Return 1 / x, and 0 at the poles."""
    poles = constant_like(is_pole, x)
    return where(poles, 0, divide(1, where(poles, 1, x)))


# --- inverses and determinants ---------------------------------------------------------------------


def _inverse(dy: Tensor, out: Tensor) -> Tensor:
    turned = transpose_matrices(out)
    return -matmul(matmul(turned, dy), turned)


def _solve(dy: Tensor, saved: list[Tensor], attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return both gradients, which share one solution of the transposed system."""
    matrix, out = saved

    @cache
    def of_rhs() -> Tensor:
        return decomposition.solve(transpose_matrices(matrix), dy)

    return {"matrix": lambda: -matmul(of_rhs(), out, transpose_b=True), "rhs": of_rhs}


def _determinant(dy: Tensor, input: Tensor) -> Tensor:
    return column(dy) * _cofactors(input)


def _cofactors(input: Tensor) -> Tensor:
    """Return the derivative of each determinant with respect to each element.

    Singular matrices have cofactors too. The matrices are grouped by the number of singular values
    that are nearly 0.
    """
    if not input.size:
        return zeros_like(input)
    nullities = _count_zero_singular_values(input)
    matrices = movement.reshape(input, shape=(len(nullities), *input.shape[-2:]))
    kinds = np.unique(nullities)
    if len(kinds) == 1:
        found = _cofactors_by_nullity(matrices, int(kinds[0]))
    else:
        groups: list[Tensor] = []
        for nullity in kinds:
            places = constant_like(np.flatnonzero(nullities == nullity).astype(np.int32), input)
            groups.append(
                _cofactors_by_nullity(indexing.gather(matrices, places, axis=0), int(nullity))
            )
        order = np.argsort(np.argsort(nullities, kind="stable")).astype(np.int32)
        joined = movement.concat(*groups, axis=0)
        found = indexing.gather(joined, constant_like(order, input), axis=0)
    return movement.reshape(found, shape=input.shape)


NOT_FINITE = -1


def _count_zero_singular_values(input: Tensor) -> Array:
    """Count each matrix's singular values near 0; `NOT_FINITE` marks a matrix that is not. The batch is flat.

    A second derivative through the inverse loses as many digits as the condition number has. With
    this limit it keeps half of them.
    """
    matrices = host_values(input).reshape(prod(input.shape[:-2]), *input.shape[-2:])
    is_finite = np.isfinite(matrices).all((1, 2))
    counts = np.where(is_finite, 0, NOT_FINITE)
    if is_finite.any():
        s = np.linalg.svd(matrices[is_finite], compute_uv=False)
        counts[is_finite] = (s <= np.sqrt(np.finfo(s.dtype).eps) * s[:, :1]).sum(1)
    return counts


def _cofactors_by_nullity(x: Tensor, nullity: int) -> Tensor:
    """Return the cofactors of matrices with `nullity` singular values near 0."""
    n = x.shape[-1]
    if nullity == NOT_FINITE:
        return x * float("nan")
    if nullity == n or n == 1:
        return transpose_matrices(_adjugate(x))
    if nullity:
        return _cofactors_of_singular(x, n - nullity)
    # divided by a mean of the singular values, neither determinants nor inverses overflow
    logarithms = decomposition.log_determinant(stop_gradient(x))[1]
    size = column(cast_like(2.0 ** round(logarithms / (n * log(2.0))), x))
    determinants = decomposition.determinant(x / size)
    return (
        size ** (n - 1) * column(determinants) * transpose_matrices(decomposition.inverse(x / size))
    )


def _cofactors_of_singular(x: Tensor, rank: int) -> Tensor:
    """Return the cofactors of singular matrices of this rank.

    With the singular vectors as constants, ``B = Uᴴ x V`` has a block of large singular values, which
    has an inverse, and a small block. The determinant is the product of the first block's determinant
    and the determinant of the small block's Schur complement, whose adjugate is a polynomial. So all
    derivatives are exact, although the singular vectors are not differentiated.
    """
    u, _, vh = decomposition.svd(stop_gradient(x), full_matrices=False)
    b = matmul(matmul(adjoint(u), x), adjoint(vh))
    large = b[:, :rank, :rank]
    inverse = decomposition.inverse(large)
    below, right = matmul(b[:, rank:, :rank], inverse), matmul(inverse, b[:, :rank, rank:])
    small = b[:, rank:, rank:] - matmul(below, b[:, :rank, rank:])
    corner = _adjugate(small)
    of_small = column(sum(small[:, 0, :] * corner[:, :, 0], axis=-1))
    beside = matmul(right, corner)
    upper = movement.concat(of_small * inverse + matmul(beside, below), -beside, axis=2)
    lower = movement.concat(-matmul(corner, below), corner, axis=2)
    turned = matmul(
        matmul(conj(u), transpose_matrices(movement.concat(upper, lower, axis=1))), conj(vh)
    )
    of_vectors = decomposition.determinant(u) * decomposition.determinant(vh)
    return column(of_vectors * decomposition.determinant(large)) * turned


def _adjugate(x: Tensor) -> Tensor:
    """Return the adjugate matrices, computed by products alone (Faddeev and Le Verrier), which is exact at 0."""
    unit = identity_like(x)
    found = zeros_like(x) + unit
    for k in range(1, x.shape[-1]):
        product = matmul(x, found)
        found = product - column(sum(diagonal(product), axis=-1) / k) * unit
    return found if x.shape[-1] % 2 else -found


def _log_determinant(dy: list[Tensor], input: Tensor, outs: list[Tensor]) -> Tensor:
    """Return the gradient through the logarithm; a complex determinant's sign turns, too."""
    d_sign, d_log = dy
    is_singular = np.isneginf(host_values(outs[1]))
    if is_singular.any():
        is_used = host_values(d_log) != 0
        if input.dtype.kind == "complex":
            is_used = is_used | (host_values(d_sign) != 0)
        if (is_singular & is_used).any():
            n = input.shape[-1]
            raise ArgumentValueError(
                f"slogdet: a matrix of shape {(n, n)} is singular, where the logarithm of the determinant is -inf and "
                f"has no gradient; use det, whose gradient exists there, or add a small multiple of eye({n})"
            )
        input = where(
            constant_like(is_singular[..., None, None], input), identity_like(input), input
        )
    weight = cast_like(d_log, input)
    if input.dtype.kind == "complex":
        turning = parts.imag(d_sign * outs[0])
        weight = weight + parts.complex(zeros_like(turning), turning)
    return column(weight) * transpose_matrices(decomposition.inverse(input))


gradient(decomposition.inverse, input=_inverse)
register_gradient(GradientConfig(decomposition.solve.name, _solve, ("matrix",), (True,)))
gradient(decomposition.determinant, input=_determinant)
gradient(decomposition.log_determinant, input=_log_determinant)


# --- Hermitian matrices ----------------------------------------------------------------------------


def _hermitian(x: Tensor) -> Tensor:
    return (x + adjoint(x)) * 0.5


def _cholesky(dy: Tensor, out: Tensor) -> Tensor:
    """Return the Hermitian part of ``inverse(Lᴴ) P(Lᴴ dy) inverse(L)``; P halves the diagonal and drops what is above.

    The inverse is that of Lᴴ because an upper triangular matrix needs no elimination.
    """
    upper = adjoint(out)
    inverse = decomposition.inverse(upper)
    below = matmul(upper, conj(dy)) * constant_like(_half_lower(out.shape[-1], str(out.dtype)), out)
    half = matmul(matmul(inverse, below), adjoint(inverse))
    return conj(half + adjoint(half))


@lru_cache(maxsize=64)
def _half_lower(n: int, dtype: str) -> Array:
    """Return a matrix with 0.5 below the diagonal and 0.25 on it."""
    return (np.tri(n, dtype=dtype) + np.tri(n, k=-1, dtype=dtype)) / 4


def _eigh(dy: list[Tensor], outs: list[Tensor], absent: frozenset[int]) -> Tensor:
    (d_values, d_vectors), (values, vectors) = [conj(d) for d in dy], outs
    inner = diagonal_matrix(cast_like(d_values, vectors))
    if 1 not in absent:
        turned = matmul(adjoint(vectors), d_vectors)
        is_tie = _equal_pairs(values)
        _check_eigenvectors(dy, turned, values, is_tie, is_alone=0 in absent)
        gaps = row(values) - movement.reshape(values, shape=(*values.shape, 1))
        inner = inner + turned * cast_like(safe_reciprocal(gaps, is_tie), vectors)
    return conj(_hermitian(matmul(matmul(vectors, inner), adjoint(vectors))))


def _equal_pairs(values: Tensor) -> Array:
    """Return which pairs of values count as equal; the diagonal is True."""
    found = host_values(values)
    limits = zero_tolerance(found) * np.abs(found).max(-1, initial=0)
    return np.abs(found[..., None, :] - found[..., :, None]) <= limits[..., None, None]


def _check_eigenvectors(
    dy: list[Tensor], turned: Tensor, values: Tensor, is_tie: Array, *, is_alone: bool
) -> None:
    """Raise if a gradient depends on eigenvectors of equal eigenvalues, which are not unique.

    Eigenvectors of equal eigenvalues are any that span the same space. If the result depends on
    nothing but this space, as a projection does, turning them towards each other adds 0 to the
    gradient. If the result also depends on the eigenvalues, it adds the limit of 0 / 0, which no rule
    can know: it is the derivative of what the result does with the eigenvalues.

    Raises:
        ArgumentValueError: they do.
    """
    pairs = _distinct_pairs(is_tie)
    if not pairs.any():
        return
    if is_alone:
        found = host_values(turned)
        wrong = pairs & _ambiguous_rotations(found, _norms(found))
    else:
        wrong = pairs & _either_has_gradient(_has_gradient(dy[1], -2) | (host_values(dy[0]) != 0))
    _raise_no_gradient("eigh", "eigen", values, np.any(wrong, axis=-1))


def _distinct_pairs(is_tie: Array) -> Array:
    """Return which pairs count as different."""
    return is_tie & ~np.eye(is_tie.shape[-1], dtype=bool)


def _either_has_gradient(is_used: Array) -> Array:
    """Return the pairs in which at least one vector has a gradient."""
    return is_used[..., None, :] | is_used[..., :, None]


def _has_gradient(d: Tensor, axis: int) -> Array:
    """Return which vectors along an axis have a nonzero gradient."""
    return np.any(host_values(d) != 0, axis=axis)


def _norms(x: Array) -> Array:
    return np.linalg.norm(x, axis=(-2, -1), keepdims=True)


def _ambiguous_rotations(turned: Array, sizes: Array) -> Array:
    """Return the pairs of vectors whose rotation into each other would change the result.

    `sizes` are those of the numbers of which the differences were computed.
    """
    changes = np.abs(turned - np.conj(np.swapaxes(turned, -1, -2)))
    return ~(changes <= 8 * turned.shape[-1] * machine_epsilon(turned) * sizes)


def _raise_no_gradient(
    op: str, kind: str, values: Tensor, is_wrong: Array, *, or_zero: str = ""
) -> None:
    """Raise a GradientNotFound for vectors without a gradient; the message shows the values of the first such matrix.

    Raises:
        ArgumentValueError: those of one have none.
    """
    if is_wrong.any():
        first = tuple(np.argwhere(is_wrong)[0][:-1])
        only_values = {"eigh": "eigvalsh", "svd": "svdvals"}[op]
        raise ArgumentValueError(
            f"{op}: the derivative through {kind}vectors of equal {kind}values{or_zero} is not determined; one matrix "
            f"has the {kind}values {format_values(host_values(values)[first])}. Add different small "
            "numbers to the diagonal, or use "
            f"{only_values} (for first derivatives) where the vectors do not matter"
        )


gradient(decomposition.cholesky, input=_cholesky)
gradient(decomposition.eigh, input=_eigh)


# --- singular values -------------------------------------------------------------------------------


def _svd(dy: list[Tensor], outs: list[Tensor], absent: frozenset[int]) -> Tensor:
    u, s, vh = outs
    rows, columns, least = u.shape[-2], vh.shape[-1], s.shape[-1]
    if u.shape[-1] > least or vh.shape[-2] > least:
        for d in (dy[0][..., least:], dy[2][..., least:, :]):
            _check_basis_completion("svd", d, "full_matrices=False")
        dy = [dy[0][..., :least], dy[1], dy[2][..., :least, :]]
        u, vh = u[..., :least], vh[..., :least, :]
    found = host_values(s)
    is_zero = found <= zero_tolerance(found) * found.max(-1, initial=0, keepdims=True)
    _check_singular_values(dy[1], s, is_zero)
    if {0, 2} <= absent:
        # a singular value has a kink at 0, like abs
        d_s = where(constant_like(is_zero, s), 0, dy[1])
        return matmul(matmul(conj(u), diagonal_matrix(cast_like(d_s, u))), conj(vh))
    d_u, d_s, d_vh = (conj(d) for d in dy)
    v, d_v = adjoint(vh), adjoint(d_vh)
    by_u, by_v = matmul(adjoint(u), d_u), matmul(adjoint(v), d_v)
    is_tie = _equal_pairs(s)
    both_zero = is_zero[..., None, :] & is_zero[..., :, None]
    # one 0 of a real, square matrix leaves nothing open but signs
    is_open = is_zero
    if rows == columns and u.dtype.kind != "complex":
        is_open = is_zero & (is_zero.sum(-1, keepdims=True) > 1)
    if 1 in absent:
        _check_singular_subspaces(dy, by_u, by_v, s, is_tie, is_open)
    else:
        _check_singular_vectors(dy, s, is_tie, is_open)
    others = movement.reshape(s, shape=(*s.shape, 1))
    apart = cast_like(safe_reciprocal(row(s) - others, is_tie), u)
    together = cast_like(safe_reciprocal(row(s) + others, both_zero), u)
    inner = (_skew(by_u + by_v) * apart + _skew(by_u - by_v) * together) * 0.5
    total = matmul(matmul(u, inner + diagonal_matrix(cast_like(d_s, u))), vh)
    scale = row(cast_like(safe_reciprocal(s, is_zero), u))
    if rows > least:
        free = d_u - matmul(u, by_u)
        _check_null_space(free, d_u, s, is_zero)
        total = total + matmul(free * scale, vh)
    if columns > least:
        free = d_v - matmul(v, by_v)
        _check_null_space(free, d_v, s, is_zero)
        total = total + matmul(u, adjoint(free * scale))
    return conj(total)


def _skew(x: Tensor) -> Tensor:
    return x - adjoint(x)


def _check_basis_completion(op: str, d: Tensor, remedy: str) -> None:
    """Raise if a gradient depends on vectors that only complete a basis.

    Raises:
        GradientNotFound: they do.
    """
    if np.any(host_values(d) != 0):
        raise GradientNotFound(
            f"{op}: the vectors that only complete a basis are not unique and have no gradient; use {remedy}"
        )


def _check_singular_values(d_s: Tensor, s: Tensor, is_zero: Array) -> None:
    """Raise if a gradient is infinite at a singular value of 0, as the gradient of its logarithm is.

    Raises:
        ArgumentValueError: it is.
    """
    if is_zero.any() and (wrong := is_zero & ~np.isfinite(host_values(d_s))).any():
        first = tuple(np.argwhere(wrong)[0][:-1])
        raise ArgumentValueError(
            f"svd: the gradient with respect to a singular value is infinite at 0; a matrix has the singular values "
            f"{format_values(host_values(s)[first])}. Leave out those that are 0, or add a small number to them"
        )


def _check_singular_subspaces(
    dy: list[Tensor], by_u: Tensor, by_v: Tensor, s: Tensor, is_tie: Array, is_open: Array
) -> None:
    """Raise if a result that uses only singular vectors depends on more than the subspaces they span.

    Where singular values are equal, U and V may turn together, and where they are 0 each by itself.

    Raises:
        ArgumentValueError: it does.
    """
    pairs = _distinct_pairs(is_tie)
    if pairs.any() or is_open.any():
        left, right = host_values(by_u), host_values(by_v)
        sizes = _norms(left) + _norms(right)
        each = (
            is_open[..., None, :]
            & (_ambiguous_rotations(left, sizes) | _ambiguous_rotations(right, sizes))
            & is_tie
        )
        together = pairs & _ambiguous_rotations(left + right, sizes)
        both = is_open & _has_gradient(dy[0], -2) & _has_gradient(dy[2], -1)
        _raise_singular(s, (each | together).any(-1) | both)


def _check_singular_vectors(dy: list[Tensor], s: Tensor, is_tie: Array, is_open: Array) -> None:
    """Raise if a result that also uses singular values depends on vectors of equal or zero singular values.

    `_check_eigenvectors` says why.

    Raises:
        ArgumentValueError: they do.
    """
    pairs = _distinct_pairs(is_tie)
    if pairs.any() or is_open.any():
        used = _has_gradient(dy[0], -2) | _has_gradient(dy[2], -1) | (host_values(dy[1]) != 0)
        _raise_singular(s, (pairs & _either_has_gradient(used)).any(-1) | (is_open & used))


def _check_null_space(free: Tensor, d: Tensor, s: Tensor, is_zero: Array) -> None:
    """Raise if a gradient moves vectors of zero singular values out of their space, for which there is no rate."""
    if is_zero.any():
        limits = 8 * free.shape[-2] * machine_epsilon(free) * _norms(host_values(d))
        _raise_singular(s, is_zero & ~(np.abs(host_values(free)) <= limits).all(-2))


def _raise_singular(s: Tensor, is_wrong: Array) -> None:
    _raise_no_gradient("svd", "singular ", s, is_wrong, or_zero=", or of 0,")


gradient(decomposition.svd, input=_svd)


# --- QR --------------------------------------------------------------------------------------------


def _qr(dy: list[Tensor], outs: list[Tensor]) -> Tensor:
    q, r = outs
    rows, columns = q.shape[-2], r.shape[-1]
    if q.shape[-1] > columns:
        _check_basis_completion("qr", dy[0][..., columns:], "mode='reduced'")
        dy = [dy[0][..., :columns], dy[1][..., :columns, :]]
        q, r = q[..., :columns], r[..., :columns, :]
    d_q, d_r = (conj(d) for d in dy)
    if columns <= rows:
        return conj(_tall_qr(d_q, d_r, q, r))
    # the first columns determine Q, and Q the others
    others = d_r[..., rows:]
    d_q = d_q + matmul(matmul(q, r[..., rows:]), adjoint(others))
    first = _tall_qr(d_q, d_r[..., :rows], q, r[..., :rows])
    return conj(movement.concat(first, matmul(q, others), axis=q.ndim - 1))


def _tall_qr(d_q: Tensor, d_r: Tensor, q: Tensor, r: Tensor) -> Tensor:
    r = _replace_singular(d_q, d_r, r, q.shape[-2])
    inner = matmul(r, adjoint(d_r)) - matmul(adjoint(d_q), q)
    below = tril(inner, k=-1)
    middle = below + adjoint(below) + diagonal_matrix(cast_like(real(diagonal(inner)), q))
    return adjoint(decomposition.solve(r, adjoint(d_q + matmul(q, middle))))


def _replace_singular(d_q: Tensor, d_r: Tensor, r: Tensor, rows: int) -> Tensor:
    """Return r, with identity matrices in place of singular ones that receive no gradient.

    Raises:
        ArgumentValueError: a gradient reaches one that is singular.
    """
    values = host_values(r)
    sizes = np.abs(np.diagonal(values, axis1=-2, axis2=-1))
    limits = zero_tolerance(r) * np.linalg.norm(values, axis=-2)
    is_singular = (sizes <= limits).any(-1)
    if not is_singular.any():
        return r
    used = (host_values(d_q) != 0).any((-2, -1)) | (host_values(d_r) != 0).any((-2, -1))
    if (is_singular & used).any():
        raise ArgumentValueError(
            f"qr: the factors have no gradient where a column depends on those before it, as in a matrix of shape "
            f"{(rows, r.shape[-1])} here; leave such columns out, or use svd"
        )
    return where(constant_like(is_singular[..., None, None], r), identity_like(r), r)


gradient(decomposition.qr, input=_qr)
