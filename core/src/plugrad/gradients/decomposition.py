"""Gradients of factorizations, after Giles (2008), Townsend (2016) and Seeger et al. (2017).

The literature gives the gradient for complex matrices, with Hermitian transposes. Rules are plain
transposes (docs/notes/0006), so the rules whose kernel is not holomorphic conjugate dy and the result.

Some gradients do not exist at singular matrices or at equal eigenvalues. No rule reads a value to find
out: masks on the device select what each matrix of a batch needs, and where a derivative is not
determined it is NaN.
"""

from collections.abc import Mapping
from functools import cache, lru_cache
from math import log
from typing import Any

import numpy as np

from plugrad.kernels import complex as parts, decomposition, movement, sorting
from plugrad.kernels.linalg import matmul
from plugrad.ops.binary import divide, where
from plugrad.ops.complex import conj, imag, real
from plugrad.ops.creation import asarray, eye, zeros_like
from plugrad.ops.indexing import take_along_axis
from plugrad.ops.linalg import tril, triu
from plugrad.ops.rearrangement import roll
from plugrad.ops.reduction import all, any, max, sum
from plugrad.ops.scan import cumulative_prod
from plugrad.ops.transfer import stop_gradient
from plugrad.ops.unary import abs, isfinite, log as logarithm, round, sqrt
from plugrad.tape.rules import GradientConfig, gradient, register_gradient
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import int32
from plugrad.types.specs import Spec

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


def reshape_to_1x1_matrices(x: Tensor) -> Tensor:
    """Reshape one number per matrix to a matrix of one element."""
    return movement.reshape(x, shape=(*x.shape, 1, 1))


def as_column_matrices(x: Tensor) -> Tensor:
    """Reshape vectors along the last axis to matrices with one column."""
    return movement.reshape(x, shape=(*x.shape, 1))


def as_row_matrices(x: Tensor) -> Tensor:
    """Reshape vectors along the last axis to matrices with one row."""
    return movement.reshape(x, shape=(*x.shape[:-1], 1, x.shape[-1]))


def cast_like(x: Tensor, like: Tensor) -> Tensor:
    """Return real numbers in the dtype of `like`, complex ones with imaginary parts of 0."""
    return parts.complex(x, zeros_like(x)) if like.dtype.kind == "complex" else x


def constant_like(values: Array, x: Tensor) -> Tensor:
    """Copy host values to the device of `x`, as a constant."""
    return asarray(values, device=x.backend)


def identity_like(x: Tensor) -> Tensor:
    """Return the identity matrix with the size and dtype of the matrices `x`."""
    return eye(x.shape[-1], dtype=x.dtype, device=x.backend)


def singular_value_tolerance(x: Tensor) -> float:
    """Return the relative size below which a value counts as 0, somewhat above the rounding error."""
    return 32 * machine_epsilon(x)


def machine_epsilon(x: Tensor) -> float:
    """Return the machine epsilon of a dtype."""
    return float(np.finfo(x.dtype.numpy).eps)


def safe_reciprocal(x: Tensor, is_pole: Tensor) -> Tensor:
    """Return 1 / x, and 0 at the poles."""
    return where(is_pole, 0, divide(1, where(is_pole, 1, x)))


def nan_where(is_undetermined: Tensor, matrices: Tensor) -> Tensor:
    """Return the matrices, and NaN in place of those without a derivative.

    The NaN comes from a division, and is no constant: so the setting `check_finite` finds it.
    """
    one = where(is_undetermined, 0.0, 1.0).astype(matrices.dtype)
    return matrices * reshape_to_1x1_matrices(divide(one, one))


def has_nonzero_gradient(d: Tensor) -> Tensor:
    """Return for each matrix whether its incoming gradient has a nonzero element."""
    return any(stop_gradient(d) != 0, axis=(-2, -1))


def frobenius_norms(x: Tensor) -> Tensor:
    """Return the Frobenius norms as matrices of one element, as constants."""
    return reshape_to_1x1_matrices(sqrt(sum(abs(stop_gradient(x)) ** 2, axis=(-2, -1))))


# --- inverses and determinants ---------------------------------------------------------------------


def _inverse_vjp(dy: Tensor, out: Tensor) -> Tensor:
    turned = transpose_matrices(out)
    return -matmul(matmul(turned, dy), turned)


def _solve_vjp(dy: Tensor, saved: list[Tensor], attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return both gradients, which share one solution of the transposed system."""
    matrix, out = saved

    @cache
    def rhs_gradient() -> Tensor:
        return decomposition.solve(transpose_matrices(matrix), dy)

    return {"matrix": lambda: -matmul(rhs_gradient(), out, transpose_b=True), "rhs": rhs_gradient}


def _determinant_vjp(dy: Tensor, input: Tensor) -> Tensor:
    return reshape_to_1x1_matrices(dy) * _cofactors(input)


def _cofactors(x: Tensor) -> Tensor:
    """Return the derivative of each determinant with respect to each element, also of singular matrices."""
    if not x.size:
        return zeros_like(x)
    n = x.shape[-1]
    is_finite = all(isfinite(abs(stop_gradient(x))), axis=(-2, -1), keepdims=True)
    if n == 1:
        found = zeros_like(x) + 1
    elif n == 2:
        signs = constant_like(np.array([[1, -1], [-1, 1]], x.dtype.numpy), x)
        found = movement.reverse(x, dims=(x.ndim - 2, x.ndim - 1)) * signs
    elif n == 3:
        found = _minor_product(x, 1, 2) - _minor_product(x, 2, 1)
    else:
        found = _cofactors_by_svd(where(is_finite, x, identity_like(x)))
    return where(is_finite, found, np.nan)


def _minor_product(x: Tensor, first_offset: int, second_offset: int) -> Tensor:
    """Return for each (i, j) the product of elements (i + 1, j + first_offset) and (i + 2, j + second_offset)."""
    return roll(x, (-1, -first_offset), axis=(-2, -1)) * roll(
        x, (-2, -second_offset), axis=(-2, -1)
    )


def _cofactors_by_svd(x: Tensor) -> Tensor:
    """Return the cofactors of finite matrices of any rank.

    With the singular vectors as constants, ``B = Uᴴ x V`` has a block of large singular values, which has an inverse,
    and a small block. The determinant is the product of the first block's determinant and the determinant of the small
    block's Schur complement, whose adjugate is a polynomial. So the derivatives are exact, although the singular
    vectors are not differentiated: all of them, unless three or more singular values are nearly 0; and then the first
    one, which makes it the second one of the determinant.

    A second derivative through the inverse loses as many digits as the condition number has. With the limit for
    small singular values it keeps half of them.
    """
    n = x.shape[-1]
    unit = identity_like(x)
    u, s, vh = decomposition.svd(stop_gradient(x), full_matrices=False)
    limit = machine_epsilon(x) ** 0.5
    is_small = s <= limit * s[..., :1]
    has_small = is_small[..., -1:]  # they descend
    # Divided by a mean of the singular values, determinants of matrices that have an inverse do not overflow.
    exponent = sum(logarithm(where(has_small, 1, s)), axis=-1, keepdims=True) / (n * log(2.0))
    size = reshape_to_1x1_matrices(cast_like(2.0 ** round(exponent), x)[..., 0])
    b = matmul(matmul(adjoint(u), x / size), adjoint(vh))
    is_left, is_top = ~as_row_matrices(is_small), ~as_column_matrices(is_small)
    large = where(is_left & is_top, b, unit)
    inverse = decomposition.inverse(large)
    upper = where(is_left & is_top, inverse, 0)
    below, right = (
        matmul(where(is_left, where(is_top, 0, b), 0), inverse),
        where(is_left, 0, where(is_top, b, 0)),
    )
    small = where(is_left | is_top, 0, b) - matmul(below, right)
    right = matmul(inverse, right)
    corner = where(is_left | is_top, 0, _adjugate(small, is_small))
    of_small = sum(small[..., -1, :] * corner[..., :, -1], axis=-1, keepdims=True)
    of_small = reshape_to_1x1_matrices(where(has_small, of_small, 1)[..., 0])
    beside = matmul(right, corner)
    found = of_small * upper + matmul(beside, below) - beside - matmul(corner, below) + corner
    turned = matmul(matmul(conj(u), transpose_matrices(found)), conj(vh))
    of_vectors = decomposition.determinant(u) * decomposition.determinant(vh)
    return (
        size ** (n - 1)
        * reshape_to_1x1_matrices(of_vectors * decomposition.determinant(large))
        * turned
    )


def _adjugate(x: Tensor, is_included: Tensor) -> Tensor:
    """Return the adjugates of nearly diagonal matrices, exact to first order in the off-diagonal elements.

    The matrices consist of the rows and columns that are inside; what the result has elsewhere means nothing.
    """
    d = where(is_included, real(stop_gradient(diagonal(x))), 1)
    unit = identity_like(x)
    offset = x - diagonal_matrix(cast_like(where(is_included, d, 0), x))
    before, after = (cumulative_prod(d, axis=-1, exclusive=True, reverse=r) for r in (False, True))
    # The product of all but two: of those before both, between them, and after both.
    is_above = constant_like(np.triu(np.ones(x.shape[-2:], bool), 1), x)
    between = cumulative_prod(where(is_above, as_row_matrices(d), 1), axis=-1, exclusive=True)
    pairs = where(is_above, as_column_matrices(before) * between * as_row_matrices(after), 0)
    pairs = cast_like(pairs + transpose_matrices(pairs), x)
    changes = matmul(pairs, as_column_matrices(diagonal(offset)))
    return unit * (changes + as_column_matrices(cast_like(before * after, x))) - pairs * offset


def _log_determinant_vjp(dy: list[Tensor], input: Tensor, outs: list[Tensor]) -> Tensor:
    """Return the gradient through the logarithm; for complex matrices also through the phase of the sign.

    It is NaN at singular matrices, or 0 if the result does not use them.
    """
    d_sign, d_log = dy
    is_complex = input.dtype.kind == "complex"
    is_singular = stop_gradient(outs[1]) == -np.inf
    has_gradient = stop_gradient(d_log) != 0
    if is_complex:
        has_gradient = has_gradient | (stop_gradient(d_sign) != 0)
    place = reshape_to_1x1_matrices(is_singular)
    input = where(place, identity_like(input), input)
    weight = cast_like(d_log, input)
    if is_complex:
        turning = parts.imag(d_sign * outs[0])
        weight = weight + parts.complex(zeros_like(turning), turning)
    found = reshape_to_1x1_matrices(weight) * transpose_matrices(decomposition.inverse(input))
    return nan_where(is_singular & has_gradient, found)


gradient(decomposition.inverse, input=_inverse_vjp)
register_gradient(GradientConfig(decomposition.solve.name, _solve_vjp, ("matrix",), (True,)))
gradient(decomposition.determinant, input=_determinant_vjp)
gradient(decomposition.log_determinant, input=_log_determinant_vjp)


# --- Hermitian matrices ----------------------------------------------------------------------------


def _hermitian_part(x: Tensor) -> Tensor:
    return (x + adjoint(x)) * 0.5


def _cholesky_vjp(dy: Tensor, out: Tensor) -> Tensor:
    """Return the Hermitian part of ``inverse(Lᴴ) P(Lᴴ dy) inverse(L)``; P halves the diagonal and drops what is above.

    The inverse is that of Lᴴ because an upper triangular matrix needs no elimination.
    """
    upper = adjoint(out)
    inverse = decomposition.inverse(upper)
    below = matmul(upper, conj(dy)) * constant_like(
        _half_lower_triangle(out.shape[-1], str(out.dtype)), out
    )
    half = matmul(matmul(inverse, below), adjoint(inverse))
    return conj(half + adjoint(half))


@lru_cache(maxsize=64)
def _half_lower_triangle(n: int, dtype: str) -> Array:
    """Return a matrix with 0.5 below the diagonal and 0.25 on it."""
    return (np.tri(n, dtype=dtype) + np.tri(n, k=-1, dtype=dtype)) / 4


def _eigh_vjp(dy: list[Tensor], outs: list[Tensor], absent: frozenset[int]) -> Tensor:
    """Return the gradient, NaN if eigenvectors of equal eigenvalues matter; `absent` are outputs, by index, without dy.

    Eigenvectors of equal eigenvalues are any that span the same space. If the result depends on
    nothing but this space, as a projection does, turning them towards each other adds 0 to the
    gradient. If the result also depends on the eigenvalues, it adds the limit of 0 / 0, which no rule
    can know: it is the derivative of what the result does with the eigenvalues.
    """
    (d_values, d_vectors), (values, vectors) = [conj(d) for d in dy], outs
    inner = diagonal_matrix(cast_like(d_values, vectors))
    if 1 not in absent and vectors.shape[-1]:
        rotation = matmul(adjoint(vectors), d_vectors)
        is_tie = _equal_pairs(values)
        gaps = as_row_matrices(values) - as_column_matrices(values)
        inner = inner + rotation * cast_like(safe_reciprocal(gaps, is_tie), vectors)
        if 0 in absent:
            is_wrong = _ambiguous_rotations(rotation, frobenius_norms(rotation))
        else:
            is_wrong = _pairs_with_used_vectors(
                _has_nonzero(dy[1], -2) | (stop_gradient(dy[0]) != 0)
            )
        inner = nan_where(any(_off_diagonal_ties(is_tie) & is_wrong, axis=(-2, -1)), inner)
    return conj(_hermitian_part(matmul(matmul(vectors, inner), adjoint(vectors))))


def _equal_pairs(values: Tensor) -> Tensor:
    """Return which pairs of values count as equal; the diagonal is True."""
    values = stop_gradient(values)
    limits = singular_value_tolerance(values) * max(abs(values), axis=-1, keepdims=True)
    return abs(as_row_matrices(values) - as_column_matrices(values)) <= as_row_matrices(limits)


def _off_diagonal_ties(is_tie: Tensor) -> Tensor:
    """Return which pairs of values at different positions count as equal: the ties without the diagonal."""
    return is_tie & constant_like(~np.eye(is_tie.shape[-1], dtype=bool), is_tie)


def _pairs_with_used_vectors(is_used: Tensor) -> Tensor:
    """Return by bools, as square matrices, the pairs of vectors of which at least one has a gradient."""
    return as_row_matrices(is_used) | as_column_matrices(is_used)


def _has_nonzero(d: Tensor, axis: int) -> Tensor:
    """Return which vectors along an axis have a nonzero gradient."""
    return any(stop_gradient(d) != 0, axis=axis)


def _ambiguous_rotations(rotation: Tensor, magnitudes: Tensor) -> Tensor:
    """Return the pairs of ambiguous vectors whose rotation into each other changes the result by more than rounding.

    `magnitudes` are those of the numbers of which the differences were computed.
    """
    rotation = stop_gradient(rotation)
    changes = abs(rotation - adjoint(rotation))
    return ~(changes <= 8 * rotation.shape[-1] * machine_epsilon(rotation) * magnitudes)


gradient(decomposition.cholesky, input=_cholesky_vjp)
gradient(decomposition.eigh, input=_eigh_vjp)


# --- singular values -------------------------------------------------------------------------------


def _svd_vjp(dy: list[Tensor], outs: list[Tensor], absent: frozenset[int]) -> Tensor:
    """Return the gradient, NaN if ambiguous vectors matter; `absent` are the indices of the outputs without a dy.

    The reasons are those of `_eigh_vjp`. In addition, vectors of singular values of 0 are not unique, nor are
    those that only complete a basis; and the logarithm of a singular value, for example, has an infinite
    gradient at 0.
    """
    u, s, vh = outs
    rows, columns, least = u.shape[-2], vh.shape[-1], s.shape[-1]
    completing: list[Tensor] = []
    if u.shape[-1] > least or vh.shape[-2] > least:
        completing = [dy[0][..., least:], dy[2][..., least:, :]]
        dy = [dy[0][..., :least], dy[1], dy[2][..., :least, :]]
        u, vh = u[..., :least], vh[..., :least, :]
    if not least:
        return matmul(u, vh)
    sizes = stop_gradient(s)
    is_zero = sizes <= singular_value_tolerance(s) * sizes[..., :1]  # they descend
    is_wrong = any(is_zero & ~isfinite(stop_gradient(dy[1])), axis=-1)
    for d in completing:
        is_wrong = is_wrong | has_nonzero_gradient(d)
    if {0, 2} <= absent:
        # a singular value has a kink at 0, like abs
        d_s = cast_like(where(is_zero, 0, dy[1]), u)
        return nan_where(is_wrong, matmul(matmul(conj(u), diagonal_matrix(d_s)), conj(vh)))
    d_u, d_s, d_vh = (conj(d) for d in dy)
    v, d_v = adjoint(vh), adjoint(d_vh)
    u_rotation, v_rotation = matmul(adjoint(u), d_u), matmul(adjoint(v), d_v)
    is_tie = _equal_pairs(s)
    # one 0 of a real, square matrix leaves nothing open but signs
    is_null = is_zero
    if rows == columns and u.dtype.kind != "complex":
        is_null = is_zero & (sum(is_zero.astype(int32), axis=-1, keepdims=True) > 1)
    check = _depends_on_more_than_subspaces if 1 in absent else _depends_on_vectors_of_equal_values
    is_wrong = is_wrong | check(dy, u_rotation, v_rotation, is_tie, is_null)
    both_zero = as_row_matrices(is_zero) & as_column_matrices(is_zero)
    apart = cast_like(safe_reciprocal(as_row_matrices(s) - as_column_matrices(s), is_tie), u)
    together = cast_like(safe_reciprocal(as_row_matrices(s) + as_column_matrices(s), both_zero), u)
    inner = (
        _subtract_adjoint(u_rotation + v_rotation) * apart
        + _subtract_adjoint(u_rotation - v_rotation) * together
    ) * 0.5
    total = matmul(matmul(u, inner + diagonal_matrix(cast_like(d_s, u))), vh)
    scale = as_row_matrices(cast_like(safe_reciprocal(s, is_zero), u))
    if rows > least:
        outside_part = d_u - matmul(u, u_rotation)
        is_wrong = is_wrong | _moves_null_space(outside_part, d_u, is_zero)
        total = total + matmul(outside_part * scale, vh)
    if columns > least:
        outside_part = d_v - matmul(v, v_rotation)
        is_wrong = is_wrong | _moves_null_space(outside_part, d_v, is_zero)
        total = total + matmul(u, adjoint(outside_part * scale))
    return nan_where(is_wrong, conj(total))


def _subtract_adjoint(x: Tensor) -> Tensor:
    """Return x minus its Hermitian transpose."""
    return x - adjoint(x)


def _depends_on_more_than_subspaces(
    dy: list[Tensor], u_rotation: Tensor, v_rotation: Tensor, is_tie: Tensor, is_null: Tensor
) -> Tensor:
    """Return for each matrix whether the result depends on singular vectors beyond the subspaces that they span.

    Where singular values are equal, U and V may turn together, and where they are 0 each by itself.
    """
    sizes = frobenius_norms(u_rotation) + frobenius_norms(v_rotation)
    each = (
        as_row_matrices(is_null)
        & (_ambiguous_rotations(u_rotation, sizes) | _ambiguous_rotations(v_rotation, sizes))
        & is_tie
    )
    together = _off_diagonal_ties(is_tie) & _ambiguous_rotations(u_rotation + v_rotation, sizes)
    both = is_null & _has_nonzero(dy[0], -2) & _has_nonzero(dy[2], -1)
    return any(each | together, axis=(-2, -1)) | any(both, axis=-1)


def _depends_on_vectors_of_equal_values(
    dy: list[Tensor], u_rotation: Tensor, v_rotation: Tensor, is_tie: Tensor, is_null: Tensor
) -> Tensor:
    """Return for each matrix whether the result depends on the vectors of equal or zero singular values."""
    used = _has_nonzero(dy[0], -2) | _has_nonzero(dy[2], -1) | (stop_gradient(dy[1]) != 0)
    pairs = _off_diagonal_ties(is_tie) & _pairs_with_used_vectors(used)
    return any(pairs, axis=(-2, -1)) | any(is_null & used, axis=-1)


def _moves_null_space(outside_part: Tensor, d: Tensor, is_zero: Tensor) -> Tensor:
    """Return whether the part of a gradient `d` outside the vectors' space is large for singular values of 0."""
    limits = 8 * outside_part.shape[-2] * machine_epsilon(outside_part) * frobenius_norms(d)
    stays = all(abs(stop_gradient(outside_part)) <= limits, axis=-2)
    return any(is_zero & ~stays, axis=-1)


gradient(decomposition.svd, input=_svd_vjp)


# --- QR --------------------------------------------------------------------------------------------


def _qr_vjp(dy: list[Tensor], outs: list[Tensor]) -> Tensor:
    """Return the gradient; it is NaN if it depends on columns of Q that only complete the basis."""
    q, r = outs
    rows, columns = q.shape[-2], r.shape[-1]
    d_q, d_r = (conj(d) for d in dy)
    if q.shape[-1] > columns:
        found = _tall_qr_vjp(
            d_q[..., :columns], d_r[..., :columns, :], q[..., :columns], r[..., :columns, :]
        )
        return nan_where(has_nonzero_gradient(d_q[..., columns:]), conj(found))
    if columns <= rows:
        return conj(_tall_qr_vjp(d_q, d_r, q, r))
    # the first columns determine Q, and Q the others
    others = d_r[..., rows:]
    d_q = d_q + matmul(matmul(q, r[..., rows:]), adjoint(others))
    first = _tall_qr_vjp(d_q, d_r[..., :rows], q, r[..., :rows])
    return conj(movement.concat(first, matmul(q, others), axis=q.ndim - 1))


def _tall_qr_vjp(d_q: Tensor, d_r: Tensor, q: Tensor, r: Tensor) -> Tensor:
    """Return the gradient for the leading columns, the same number as R has; NaN for linearly dependent columns."""
    constant = stop_gradient(r)
    limits = singular_value_tolerance(r) * sqrt(sum(abs(constant) ** 2, axis=-2))
    is_singular = any(abs(diagonal(constant)) <= limits, axis=-1)
    r = where(reshape_to_1x1_matrices(is_singular), identity_like(r), r)
    inner = matmul(r, adjoint(d_r)) - matmul(adjoint(d_q), q)
    below = tril(inner, k=-1)
    middle = below + adjoint(below) + diagonal_matrix(cast_like(real(diagonal(inner)), q))
    found = adjoint(decomposition.solve(r, adjoint(d_q + matmul(q, middle))))
    return nan_where(is_singular & (has_nonzero_gradient(d_q) | has_nonzero_gradient(d_r)), found)


gradient(decomposition.qr, input=_qr_vjp)


# --- triangular matrices and LU ----------------------------------------------------------------------


def _triangular_solve_vjp(
    dy: Tensor, saved: list[Tensor], attrs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return both gradients, which share one solution of the transposed system."""
    matrix, out = saved
    lower, unit_diagonal = attrs["lower"], attrs["unit_diagonal"]

    @cache
    def rhs_gradient() -> Tensor:
        turned = transpose_matrices(matrix)
        return decomposition.triangular_solve(
            turned, dy, lower=not lower, unit_diagonal=unit_diagonal
        )

    def matrix_gradient() -> Tensor:
        found = -matmul(rhs_gradient(), out, transpose_b=True)
        offset = 1 if unit_diagonal else 0
        return tril(found, k=-offset) if lower else triu(found, k=offset)

    return {"matrix": matrix_gradient, "rhs": rhs_gradient}


def _lu_vjp(dy: list[Tensor], outs: list[Tensor]) -> Tensor:
    """Return the gradient of the factors; the permutation of rows is constant.

    A tall matrix determines L below the square part by that part's U, and a wide one U to the right by its L.
    """
    (d_lower, d_upper), (lower, upper, order) = dy[:2], outs
    rows, columns, least = lower.shape[-2], upper.shape[-1], lower.shape[-1]
    below: list[Tensor] = []
    right: list[Tensor] = []
    square_lower, square_upper = lower[..., :least, :], upper[..., :, :least]
    if rows > least:
        rest = _solve_from_right(square_upper, d_lower[..., least:, :])
        d_upper = d_upper - matmul(lower[..., least:, :], rest, transpose_a=True)
        d_lower = d_lower[..., :least, :]
        below = [rest]
    if columns > least:
        rest = _solve_transposed(square_lower, d_upper[..., :, least:], unit_diagonal=True)
        d_lower = d_lower - matmul(rest, upper[..., :, least:], transpose_b=True)
        d_upper = d_upper[..., :, :least]
        right = [rest]
    inner = tril(matmul(square_lower, d_lower, transpose_a=True), k=-1) + triu(
        matmul(d_upper, square_upper, transpose_b=True)
    )
    inner = _solve_transposed(square_lower, inner, unit_diagonal=True)
    found = _solve_from_right(square_upper, inner)
    if below:
        found = movement.concat(found, *below, axis=found.ndim - 2)
    if right:
        found = movement.concat(found, *right, axis=found.ndim - 1)
    back = sorting.argsort(order, axis=order.ndim - 1)
    return take_along_axis(found, as_column_matrices(back), axis=-2)


def _solve_transposed(lower: Tensor, rhs: Tensor, *, unit_diagonal: bool) -> Tensor:
    """Return X with ``lowerᵀ X = rhs``."""
    return decomposition.triangular_solve(
        transpose_matrices(lower), rhs, lower=False, unit_diagonal=unit_diagonal
    )


def _solve_from_right(upper: Tensor, rhs: Tensor) -> Tensor:
    """Return X with ``X upperᵀ = rhs``."""
    found = decomposition.triangular_solve(upper, transpose_matrices(rhs), lower=False)
    return transpose_matrices(found)


register_gradient(
    GradientConfig(decomposition.triangular_solve.name, _triangular_solve_vjp, ("matrix",), (True,))
)
gradient(decomposition.lu, input=_lu_vjp)


# --- eigenvalues of general matrices -----------------------------------------------------------------


def _eig_vjp(
    dy: list[Tensor], outs: list[Tensor], absent: frozenset[int], input_spec: Spec
) -> Tensor:
    """Return the gradient, NaN if phases of eigenvectors matter; `absent` are the outputs without a dy.

    It is NaN for eigenvectors of equal eigenvalues, too. The length of eigenvectors is 1: a change of the matrix
    moves none along itself.
    """
    (d_values, d_vectors), (values, vectors) = [conj(d) for d in dy], outs
    inner = diagonal_matrix(d_values)
    if 1 not in absent and vectors.shape[-1]:
        turned = matmul(adjoint(vectors), d_vectors)
        sizes = frobenius_norms(turned)
        lengths = diagonal(turned)
        gram = matmul(adjoint(vectors), vectors)
        moved = turned - gram * as_row_matrices(cast_like(real(lengths), vectors))
        is_tie = _equal_pairs(values)
        gaps = conj(as_row_matrices(values) - as_column_matrices(values))
        inner = inner + moved * safe_reciprocal(gaps, is_tie)
        limits = machine_epsilon(turned) ** (2 / 3) * sizes[..., 0]  # an inverse of V rounds, too
        is_turned = ~(abs(imag(stop_gradient(lengths))) <= limits)
        if input_spec.dtype.kind != "complex":  # a real eigenvector stays real
            is_turned = is_turned & (imag(stop_gradient(values)) != 0)
        turns = any(is_turned, axis=-1)
        used = any(stop_gradient(abs(d_vectors)) != 0, axis=-2)
        is_wrong = any(_off_diagonal_ties(is_tie) & _pairs_with_used_vectors(used), axis=(-2, -1))
        inner = nan_where(turns | is_wrong, inner)
    found = conj(decomposition.solve(adjoint(vectors), matmul(inner, adjoint(vectors))))
    return found if input_spec.dtype.kind == "complex" else real(found)


gradient(decomposition.eig, input=_eig_vjp)
