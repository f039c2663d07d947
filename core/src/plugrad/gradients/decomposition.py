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
from plugrad.host import shown
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
from plugrad.tensor.tensor import Tensor

Array = np.ndarray[Any, Any]


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


def on_device(values: Array, x: Tensor) -> Tensor:
    """Return host values as a constant on the device of `x`."""
    return asarray(values, device=x.backend)


def unit_like(x: Tensor) -> Tensor:
    """Return the unit matrix that has the size and dtype of the matrices `x`."""
    return eye(x.shape[-1], dtype=x.dtype, device=x.backend)


def resolution(x: Tensor | Array) -> float:
    """Return the part of the largest value up to which another value counts as 0; rounding moves values less."""
    return 32 * unit_of(x)


def unit_of(x: Tensor | Array) -> float:
    """Return the distance from 1 to the next number of a dtype."""
    return float(np.finfo(np.dtype(str(x.dtype))).eps)


def reciprocal(x: Tensor, is_pole: Array) -> Tensor:
    """Return 1 / x, and 0 at the poles."""
    poles = on_device(is_pole, x)
    return where(poles, 0, divide(1, where(poles, 1, x)))


# --- inverses and determinants ---------------------------------------------------------------------


def _inverse(dy: Tensor, out: Tensor) -> Tensor:
    turned = transposed(out)
    return -matmul(matmul(turned, dy), turned)


def _solve(dy: Tensor, saved: list[Tensor], attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return both gradients, which share the solution of the transposed equations."""
    matrix, out = saved

    @cache
    def of_rhs() -> Tensor:
        return decomposition.solve(transposed(matrix), dy)

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
    nullities = _nullities(input)
    matrices = movement.reshape(input, shape=(len(nullities), *input.shape[-2:]))
    kinds = np.unique(nullities)
    if len(kinds) == 1:
        found = _of_nullity(matrices, int(kinds[0]))
    else:
        groups: list[Tensor] = []
        for nullity in kinds:
            places = on_device(np.flatnonzero(nullities == nullity).astype(np.int32), input)
            groups.append(_of_nullity(indexing.gather(matrices, places, axis=0), int(nullity)))
        order = np.argsort(np.argsort(nullities, kind="stable")).astype(np.int32)
        joined = movement.concat(*groups, axis=0)
        found = indexing.gather(joined, on_device(order, input), axis=0)
    return movement.reshape(found, shape=input.shape)


NOT_FINITE = -1


def _nullities(input: Tensor) -> Array:
    """Return how many singular values of each matrix are nearly 0, or that it is not finite; the batch is flat.

    A second derivative through the inverse loses as many digits as the condition number has. With
    this limit it keeps half of them.
    """
    matrices = input.numpy().reshape(prod(input.shape[:-2]), *input.shape[-2:])
    is_finite = np.isfinite(matrices).all((1, 2))
    counts = np.where(is_finite, 0, NOT_FINITE)
    if is_finite.any():
        s = np.linalg.svd(matrices[is_finite], compute_uv=False)
        counts[is_finite] = (s <= np.sqrt(np.finfo(s.dtype).eps) * s[:, :1]).sum(1)
    return counts


def _of_nullity(x: Tensor, nullity: int) -> Tensor:
    """Return the cofactors of matrices that all have as many singular values near 0 as `nullity` says."""
    n = x.shape[-1]
    if nullity == NOT_FINITE:
        return x * float("nan")
    if nullity == n or n == 1:
        return transposed(_adjugate(x))
    if nullity:
        return _of_singular(x, n - nullity)
    # divided by a mean of the singular values, neither determinants nor inverses overflow
    logarithms = decomposition.log_determinant(stop_gradient(x))[1]
    size = column(like(2.0 ** round(logarithms / (n * log(2.0))), x))
    determinants = decomposition.determinant(x / size)
    return size ** (n - 1) * column(determinants) * transposed(decomposition.inverse(x / size))


def _of_singular(x: Tensor, rank: int) -> Tensor:
    """Return the cofactors of matrices with `rank` singular values that are not near 0.

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
    turned = matmul(matmul(conj(u), transposed(movement.concat(upper, lower, axis=1))), conj(vh))
    of_vectors = decomposition.determinant(u) * decomposition.determinant(vh)
    return column(of_vectors * decomposition.determinant(large)) * turned


def _adjugate(x: Tensor) -> Tensor:
    """Return the adjugate matrices by products alone (Faddeev and Le Verrier), which is exact at 0."""
    unit = unit_like(x)
    found = zeros_like(x) + unit
    for k in range(1, x.shape[-1]):
        product = matmul(x, found)
        found = product - column(sum(diagonal(product), axis=-1) / k) * unit
    return found if x.shape[-1] % 2 else -found


def _log_determinant(dy: list[Tensor], input: Tensor, outs: list[Tensor]) -> Tensor:
    """Return the gradient through the logarithm; a complex determinant's sign turns, too."""
    d_sign, d_log = dy
    is_singular = np.isneginf(outs[1].numpy())
    if is_singular.any():
        is_used = d_log.numpy() != 0
        if input.dtype.kind == "complex":
            is_used = is_used | (d_sign.numpy() != 0)
        if (is_singular & is_used).any():
            n = input.shape[-1]
            raise ArgumentValueError(
                f"slogdet: a matrix of shape {(n, n)} is singular, where the logarithm of the determinant is -inf and "
                f"has no gradient; use det, whose gradient exists there, or add a small multiple of eye({n})"
            )
        input = where(on_device(is_singular[..., None, None], input), unit_like(input), input)
    weight = like(d_log, input)
    if input.dtype.kind == "complex":
        turning = parts.imag(d_sign * outs[0])
        weight = weight + parts.complex(zeros_like(turning), turning)
    return column(weight) * transposed(decomposition.inverse(input))


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
    below = matmul(upper, conj(dy)) * on_device(_half_lower(out.shape[-1], str(out.dtype)), out)
    half = matmul(matmul(inverse, below), adjoint(inverse))
    return conj(half + adjoint(half))


@lru_cache(maxsize=64)
def _half_lower(n: int, dtype: str) -> Array:
    """Return a matrix with 0.5 below the diagonal and 0.25 on it."""
    return (np.tri(n, dtype=dtype) + np.tri(n, k=-1, dtype=dtype)) / 4


def _eigh(dy: list[Tensor], outs: list[Tensor], absent: frozenset[int]) -> Tensor:
    (d_values, d_vectors), (values, vectors) = [conj(d) for d in dy], outs
    inner = as_diagonal(like(d_values, vectors))
    if 1 not in absent:
        turned = matmul(adjoint(vectors), d_vectors)
        is_tie = _ties(values)
        _check_eigenvectors(dy, turned, values, is_tie, is_alone=0 in absent)
        gaps = row(values) - movement.reshape(values, shape=(*values.shape, 1))
        inner = inner + turned * like(reciprocal(gaps, is_tie), vectors)
    return conj(_hermitian(matmul(matmul(vectors, inner), adjoint(vectors))))


def _ties(values: Tensor) -> Array:
    """Return which pairs of values count as equal; each value is equal to itself."""
    found = values.numpy()
    limits = resolution(found) * np.abs(found).max(-1, initial=0)
    return np.abs(found[..., None, :] - found[..., :, None]) <= limits[..., None, None]


def _check_eigenvectors(
    dy: list[Tensor], turned: Tensor, values: Tensor, is_tie: Array, *, is_alone: bool
) -> None:
    """Raise if eigenvectors of equal eigenvalues contribute to a gradient.

    Eigenvectors of equal eigenvalues are any that span the same space. If the result depends on
    nothing but this space, as a projection does, turning them towards each other adds 0 to the
    gradient. If the result also depends on the eigenvalues, it adds the limit of 0 / 0, which no rule
    can know: it is the derivative of what the result does with the eigenvalues.

    Raises:
        ArgumentValueError: they do.
    """
    pairs = _of_different(is_tie)
    if not pairs.any():
        return
    if is_alone:
        found = turned.numpy()
        wrong = pairs & _turns(found, _norms(found))
    else:
        wrong = pairs & _either(_is_used(dy[1], -2) | (dy[0].numpy() != 0))
    _refuse("eigh", "eigen", values, np.any(wrong, axis=-1))


def _of_different(is_tie: Array) -> Array:
    """Return the pairs of two different values."""
    return is_tie & ~np.eye(is_tie.shape[-1], dtype=bool)


def _either(is_used: Array) -> Array:
    """Return the pairs of which one is used."""
    return is_used[..., None, :] | is_used[..., :, None]


def _is_used(d: Tensor, axis: int) -> Array:
    """Return for which vectors, whose elements lie along an axis, there is a gradient."""
    return np.any(d.numpy() != 0, axis=axis)


def _norms(x: Array) -> Array:
    return np.linalg.norm(x, axis=(-2, -1), keepdims=True)


def _turns(turned: Array, sizes: Array) -> Array:
    """Return which pairs of vectors may not be turned towards each other, as the result would change.

    `sizes` are those of the numbers of which the differences were computed.
    """
    changes = np.abs(turned - np.conj(np.swapaxes(turned, -1, -2)))
    return ~(changes <= 8 * turned.shape[-1] * unit_of(turned) * sizes)


def _refuse(op: str, kind: str, values: Tensor, is_wrong: Array, *, or_zero: str = "") -> None:
    """Raise if the vectors of a value have no gradient; the message shows all values of that matrix.

    Raises:
        ArgumentValueError: those of one have none.
    """
    if is_wrong.any():
        first = tuple(np.argwhere(is_wrong)[0][:-1])
        only_values = {"eigh": "eigvalsh", "svd": "svdvals"}[op]
        raise ArgumentValueError(
            f"{op}: the derivative through {kind}vectors of equal {kind}values{or_zero} is not determined; one matrix "
            f"has the {kind}values {shown(values.numpy()[first])}. Add different small numbers to the diagonal, or use "
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
            _check_additional("svd", d, "full_matrices=False")
        dy = [dy[0][..., :least], dy[1], dy[2][..., :least, :]]
        u, vh = u[..., :least], vh[..., :least, :]
    found = s.numpy()
    is_zero = found <= resolution(found) * found.max(-1, initial=0, keepdims=True)
    _check_values(dy[1], s, is_zero)
    if {0, 2} <= absent:
        # a singular value has a kink at 0, like abs
        d_s = where(on_device(is_zero, s), 0, dy[1])
        return matmul(matmul(conj(u), as_diagonal(like(d_s, u))), conj(vh))
    d_u, d_s, d_vh = (conj(d) for d in dy)
    v, d_v = adjoint(vh), adjoint(d_vh)
    by_u, by_v = matmul(adjoint(u), d_u), matmul(adjoint(v), d_v)
    is_tie = _ties(s)
    both_zero = is_zero[..., None, :] & is_zero[..., :, None]
    # one 0 of a real, square matrix leaves nothing open but signs
    is_open = is_zero
    if rows == columns and u.dtype.kind != "complex":
        is_open = is_zero & (is_zero.sum(-1, keepdims=True) > 1)
    if 1 in absent:
        _check_spaces(dy, by_u, by_v, s, is_tie, is_open)
    else:
        _check_singular_vectors(dy, s, is_tie, is_open)
    others = movement.reshape(s, shape=(*s.shape, 1))
    apart = like(reciprocal(row(s) - others, is_tie), u)
    together = like(reciprocal(row(s) + others, both_zero), u)
    inner = (_skew(by_u + by_v) * apart + _skew(by_u - by_v) * together) * 0.5
    total = matmul(matmul(u, inner + as_diagonal(like(d_s, u))), vh)
    scale = row(like(reciprocal(s, is_zero), u))
    if rows > least:
        free = d_u - matmul(u, by_u)
        _check_free(free, d_u, s, is_zero)
        total = total + matmul(free * scale, vh)
    if columns > least:
        free = d_v - matmul(v, by_v)
        _check_free(free, d_v, s, is_zero)
        total = total + matmul(u, adjoint(free * scale))
    return conj(total)


def _skew(x: Tensor) -> Tensor:
    return x - adjoint(x)


def _check_additional(op: str, d: Tensor, remedy: str) -> None:
    """Raise if vectors contribute that only complete a basis.

    Raises:
        GradientNotFound: they do.
    """
    if np.any(d.numpy() != 0):
        raise GradientNotFound(
            f"{op}: the vectors that only complete a basis are not unique and have no gradient; use {remedy}"
        )


def _check_values(d_s: Tensor, s: Tensor, is_zero: Array) -> None:
    """Raise if a gradient is infinite at a singular value of 0, as that of its logarithm is.

    Raises:
        ArgumentValueError: it is.
    """
    if is_zero.any() and (wrong := is_zero & ~np.isfinite(d_s.numpy())).any():
        first = tuple(np.argwhere(wrong)[0][:-1])
        raise ArgumentValueError(
            f"svd: the gradient with respect to a singular value is infinite at 0; a matrix has the singular values "
            f"{shown(s.numpy()[first])}. Leave out those that are 0, or add a small number to them"
        )


def _check_spaces(
    dy: list[Tensor], by_u: Tensor, by_v: Tensor, s: Tensor, is_tie: Array, is_open: Array
) -> None:
    """Raise if a result that depends on singular vectors alone depends on more than the spaces that they span.

    Where singular values are equal, U and V may turn together, and where they are 0 each by itself.

    Raises:
        ArgumentValueError: it does.
    """
    pairs = _of_different(is_tie)
    if pairs.any() or is_open.any():
        left, right = by_u.numpy(), by_v.numpy()
        sizes = _norms(left) + _norms(right)
        each = is_open[..., None, :] & (_turns(left, sizes) | _turns(right, sizes)) & is_tie
        together = pairs & _turns(left + right, sizes)
        both = is_open & _is_used(dy[0], -2) & _is_used(dy[2], -1)
        _refuse_singular(s, (each | together).any(-1) | both)


def _check_singular_vectors(dy: list[Tensor], s: Tensor, is_tie: Array, is_open: Array) -> None:
    """Raise if singular vectors of equal singular values, or of 0, contribute together with the values.

    `_check_eigenvectors` says why.

    Raises:
        ArgumentValueError: they do.
    """
    pairs = _of_different(is_tie)
    if pairs.any() or is_open.any():
        used = _is_used(dy[0], -2) | _is_used(dy[2], -1) | (dy[1].numpy() != 0)
        _refuse_singular(s, (pairs & _either(used)).any(-1) | (is_open & used))


def _check_free(free: Tensor, d: Tensor, s: Tensor, is_zero: Array) -> None:
    """Raise if vectors of singular values that are 0 leave the space of all the vectors: no value says how fast."""
    if is_zero.any():
        limits = 8 * free.shape[-2] * unit_of(free) * _norms(d.numpy())
        _refuse_singular(s, is_zero & ~(np.abs(free.numpy()) <= limits).all(-2))


def _refuse_singular(s: Tensor, is_wrong: Array) -> None:
    _refuse("svd", "singular ", s, is_wrong, or_zero=", or of 0,")


gradient(decomposition.svd, input=_svd)


# --- QR --------------------------------------------------------------------------------------------


def _qr(dy: list[Tensor], outs: list[Tensor]) -> Tensor:
    q, r = outs
    rows, columns = q.shape[-2], r.shape[-1]
    if q.shape[-1] > columns:
        _check_additional("qr", dy[0][..., columns:], "mode='reduced'")
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
    r = _independent(d_q, d_r, r, q.shape[-2])
    inner = matmul(r, adjoint(d_r)) - matmul(adjoint(d_q), q)
    below = tril(inner, k=-1)
    middle = below + adjoint(below) + as_diagonal(like(real(diagonal(inner)), q))
    return adjoint(decomposition.solve(r, adjoint(d_q + matmul(q, middle))))


def _independent(d_q: Tensor, d_r: Tensor, r: Tensor, rows: int) -> Tensor:
    """Return r, with unit matrices for those that are singular and that no gradient reaches.

    Raises:
        ArgumentValueError: a gradient reaches one that is singular.
    """
    values = r.numpy()
    sizes = np.abs(np.diagonal(values, axis1=-2, axis2=-1))
    limits = resolution(r) * np.linalg.norm(values, axis=-2)
    is_singular = (sizes <= limits).any(-1)
    if not is_singular.any():
        return r
    used = (d_q.numpy() != 0).any((-2, -1)) | (d_r.numpy() != 0).any((-2, -1))
    if (is_singular & used).any():
        raise ArgumentValueError(
            f"qr: the factors have no gradient where a column depends on those before it, as in a matrix of shape "
            f"{(rows, r.shape[-1])} here; leave such columns out, or use svd"
        )
    return where(on_device(is_singular[..., None, None], r), unit_like(r), r)


gradient(decomposition.qr, input=_qr)
