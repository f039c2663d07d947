"""Functions of square matrices that are no functions of each element: the exponential, the logarithm and powers."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Final

import numpy as np

from plugrad.errors import ArgumentError, ShapeError
from plugrad.kernels import decomposition, matrix_functions
from plugrad.kernels.decomposition import REAL_DTYPE_OF_DTYPE
from plugrad.kernels.linalg import matmul
from plugrad.ops.arguments import as_supported_dtype, promote_to_one_dtype
from plugrad.ops.attributes import check_number
from plugrad.ops.binary import greater, maximum, where
from plugrad.ops.creation import asarray, eye
from plugrad.ops.decomposition import matrix_power
from plugrad.ops.indexing import take
from plugrad.ops.movement import reshape
from plugrad.ops.reduction import max, sum
from plugrad.ops.transfer import stop_gradient
from plugrad.ops.unary import abs, ceil, exp, log2 as logarithm, trunc
from plugrad.types.dtype import float32, int32

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.tensor.tensor import Tensor, TensorLike

PADE_7_COEFFICIENTS: Final = (
    17297280.0,
    8648640.0,
    1995840.0,
    277200.0,
    25200.0,
    1512.0,
    56.0,
    1.0,
)
"""The coefficients of the numerator of Padé's approximation of exp of degree 7, from the constant term on."""
PADE_13_COEFFICIENTS: Final = (
    *(64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0),
    *(129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0),
    *(40840800.0, 960960.0, 16380.0, 182.0, 1.0),
)
"""The coefficients of the numerator of Padé's approximation of exp of degree 13, (2m - k)! m! / ((m - k)! k!)."""
MAX_NORM_OF_PADE_DEGREE: Final = {7: 3.925724783138660, 13: 5.371920351148152}
"""The largest 1-norm for which an approximation's backward error is half a unit in the last place (Higham, 2005)."""
MAX_SQUARINGS: Final = 24
"""The most times that a result is squared, which is enough for 1-norms up to 6e7."""
SQRTM_NEWTON_STEPS: Final = 14
"""The number of steps of Newton's method for a square root, which converges quadratically from a scaled start."""
LOGM_ROOTS_OF_PADE_ORDER: Final = {6: 5, 10: 6}
"""The number of square roots that bring matrices near the identity, by the order of Padé's approximation of log."""
LOGM_SCALE_STEP: Final = 32 * float(np.log(2))
"""The logarithm of the factor by whose powers matrices are scaled before `logm`.

Only matrices whose eigenvalues have a mean far from 1 are scaled. Their logarithm is so large that adding that of the
scale loses no digits.
"""


def expm(x: TensorLike, /) -> Tensor:
    """The exponential of square matrices, the sum of ``x ** k / k!`` over all k.

    >>> plugrad.linalg.expm([[0.0, 1.0], [0.0, 0.0]])
    tensor([[1., 1.],
            [0., 1.]], dtype=float32)

    The matrix is divided by a power of 2 until its 1-norm is small, Padé's approximation of order 13, or 7 in single
    precision, is taken, and squared as often (Higham, The scaling and squaring method for the matrix
    exponential revisited, 2005). A 1-norm above 6e7, an infinity or NaN gives NaN.

    Raises:
        ShapeError: the matrices are not square.
        DTypeError: they hold strings.
    """
    x = _as_square_matrices(x, "expm")
    if not x.size:
        return x
    order, coefficients = (
        (7, PADE_7_COEFFICIENTS)
        if REAL_DTYPE_OF_DTYPE[x.dtype] is float32
        else (13, PADE_13_COEFFICIENTS)
    )
    limit = MAX_NORM_OF_PADE_DEGREE[order]
    norm = max(sum(abs(stop_gradient(x)), axis=-2, keepdims=True), axis=-1, keepdims=True)
    is_possible = norm <= limit * 2**MAX_SQUARINGS
    x = where(is_possible, x, 0)
    halvings = ceil(logarithm(maximum(where(is_possible, norm, 1), limit) / limit))
    powers = asarray(0.5 ** np.arange(MAX_SQUARINGS + 1), dtype=x.dtype, device=x.backend)
    scaled = x * take(powers, halvings.astype(int32))
    even, odd = _pade_terms(scaled, coefficients)
    result = decomposition.solve(even - odd, even + odd)
    for k in range(MAX_SQUARINGS):
        is_scaled = greater(halvings, k)
        factor = where(is_scaled, result, 0)  # a square that is not used must not overflow
        result = where(is_scaled, matmul(factor, factor), result)
    return where(is_possible, result, np.nan)


def _pade_terms(x: Tensor, coefficients: Sequence[float]) -> tuple[Tensor, Tensor]:
    """Return the sums of the even and of the odd terms of a polynomial of matrices."""
    unit = eye(x.shape[-1], dtype=x.dtype, device=x.backend)
    square = power = matmul(x, x)
    even, odd = unit * coefficients[0], unit * coefficients[1]
    for k in range(2, len(coefficients), 2):
        even, odd = even + power * coefficients[k], odd + power * coefficients[k + 1]
        power = matmul(power, square)
    return even, matmul(x, odd)


def sqrtm(x: TensorLike, /) -> Tensor:
    """The principal square root of square matrices: its square is x, its eigenvalues have no negative real parts.

    >>> plugrad.linalg.sqrtm([[4.0, 1.0], [0.0, 4.0]])
    tensor([[2.  , 0.25],
            [0.  , 2.  ]], dtype=float32)

    It is found from Schur's form in double precision on the host (Björck and Hammarling, A Schur method for the square
    root of a matrix, 1983), so nearly singular matrices lose no more digits than the problem takes. Negative
    eigenvalues as small as the rounding of x count as 0. A real matrix with another negative eigenvalue has no real
    root, and gives NaN; as a complex one it has. A singular matrix has a root only if its eigenvalues of 0 have as many
    eigenvectors, and gives NaN otherwise; its gradient is NaN, as that of ``sqrt(0)`` is infinite.

    Raises:
        ShapeError: the matrices are not square.
        DTypeError: they hold strings.
        ArgumentValueError: an element is not finite.
    """
    return matrix_functions.square_root(_as_square_matrices(x, "sqrtm"))


def solve_sylvester(a: TensorLike, b: TensorLike, q: TensorLike, /) -> Tensor:
    """The solution x of Sylvester's equation, ``a @ x + x @ b = q``.

    >>> plugrad.linalg.solve_sylvester([[1.0, 0.0], [0.0, 2.0]], [[2.0]], [[6.0], [4.0]])
    tensor([[2.],
            [1.]], dtype=float32)

    It is found from the Schur forms of a and b in double precision on the host (Bartels and Stewart, 1972). There is no
    unique solution, but NaN, where an eigenvalue of a is minus one of b. The axes before the matrices are broadcast,
    and the dtype is the one to which all three promote.

    Args:
        a: square matrices (…, m, m).
        b: square matrices (…, n, n).
        q: matrices (…, m, n).

    Raises:
        ShapeError: a or b is not square, or q has other sizes.
        DTypeError: an argument holds strings.
        ArgumentValueError: an element of a or b is not finite.
    """
    kernel, op = matrix_functions.sylvester_solve, "solve_sylvester"
    return kernel(*(as_supported_dtype(x, kernel, op) for x in promote_to_one_dtype([a, b, q], op)))


def _newton_square_root(x: Tensor, step_count: int) -> Tensor:
    """Return a root by Newton's method in the product form, scaled by determinants; NaN if it has not converged."""
    unit = eye(x.shape[-1], dtype=x.dtype, device=x.backend)
    root, middle = x, x
    for _ in range(step_count):
        log = decomposition.log_determinant(stop_gradient(middle))[1]
        scale = exp(log * (-0.5 / x.shape[-1])).astype(x.dtype)
        scale = reshape(scale, (*scale.shape, 1, 1))
        inverse = decomposition.inverse(middle) / (scale * scale)
        root = root * (scale * 0.5) @ (unit + inverse)
        middle = (unit + (middle * (scale * scale) + inverse) * 0.5) * 0.5
    distance = max(abs(stop_gradient(middle) - unit), axis=(-2, -1), keepdims=True)
    return where(distance < float(np.finfo(x.dtype.numpy).eps) ** 0.5, root, np.nan)


def logm(x: TensorLike, /) -> Tensor:
    """The principal logarithm of square matrices: its `expm` is x, its eigenvalues have imaginary parts within pi.

    >>> plugrad.linalg.logm([[1.0, 2.0], [0.0, 1.0]])
    tensor([[0., 2.],
            [0., 0.]], dtype=float32)

    Square roots are taken until the matrix is near the identity; there, Padé's approximation is a sum of partial
    fractions (Cheng, Higham, Kenney and Laub, Approximating the logarithm of a matrix to specified accuracy, 2001).
    How far a root is from the identity is ``(x - 1) / (sqrt(x) + 1)``, which does not cancel (Al-Mohy, A more accurate
    Briggs method for the logarithm, 2012). A matrix with a negative eigenvalue has no principal logarithm, and
    gives NaN.

    Raises:
        ShapeError: the matrices are not square.
        DTypeError: they hold strings.
        ArgumentValueError: a matrix is singular or not finite.
    """
    x = _as_square_matrices(x, "logm")
    if not x.size:
        return x
    unit = eye(x.shape[-1], dtype=x.dtype, device=x.backend)
    order = 6 if REAL_DTYPE_OF_DTYPE[x.dtype] is float32 else 10
    roots = LOGM_ROOTS_OF_PADE_ORDER[order]
    size = decomposition.log_determinant(stop_gradient(x))[1] / (x.shape[-1] * LOGM_SCALE_STEP)
    # The inverse reports a singular matrix.
    size = where(size > -np.inf, trunc(size), 0) * LOGM_SCALE_STEP
    size = reshape(size, (*size.shape, 1, 1))
    root = x * exp(-size).astype(x.dtype)
    distance = root - unit
    for k in range(roots):  # each root starts nearer to the identity
        root = _newton_square_root(root, SQRTM_NEWTON_STEPS - min(2 * k, 8))
        distance = decomposition.solve(root + unit, distance)
    result = unit * size.astype(x.dtype)
    nodes, weights = np.polynomial.legendre.leggauss(order)
    for node, weight in zip(map(float, nodes), map(float, weights), strict=True):
        fraction = decomposition.solve(unit + distance * ((1 + node) / 2), distance)
        result = result + fraction * (weight / 2 * 2**roots)
    return result


def fractional_matrix_power(x: TensorLike, power: float, /) -> Tensor:
    """The principal power of square matrices, ``expm(power * logm(x))``; whole powers are those of `matrix_power`.

    >>> plugrad.linalg.fractional_matrix_power([[1.0, 2.0], [0.0, 1.0]], 1.5)
    tensor([[1., 3.],
            [0., 1.]], dtype=float32)

    The power is a number, not a tensor. The whole part of it is taken by products. A matrix with a negative eigenvalue
    gives NaN unless the power is whole.

    Raises:
        ShapeError: the matrices are not square.
        DTypeError: they hold strings.
        ArgumentError: the power is not a finite number.
        ArgumentValueError: a matrix is singular or not finite.
    """
    power = check_number(power, "fractional_matrix_power", "power")
    if not isfinite(power):
        raise ArgumentError(f"fractional_matrix_power: power={power!r} must be a finite number")
    x = _as_square_matrices(x, "fractional_matrix_power")
    whole = int(
        power
    )  # towards 0: a factor with a power of the other sign may be large, and cancel
    result = matrix_power(x, whole)
    if power == whole or not x.size:
        return result
    return matmul(result, expm(logm(x) * (power - whole)))


def _as_square_matrices(x: TensorLike, op: str) -> Tensor:
    """Return square matrices of inexact numbers.

    Raises:
        ShapeError: they are not square.
    """
    x = as_supported_dtype(x, decomposition.inverse, op)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{op}: the matrices of shape {x.shape} must be square")
    return x
