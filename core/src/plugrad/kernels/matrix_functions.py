"""Kernels of square matrices that compute with their eigenvalues.

Args:
    input: square matrices (…, n, n).

Returns:
    a tensor of the shape and the dtype of the input.
"""

from plugrad.contract.kernel import check_same_dtype, kernel
from plugrad.errors import ShapeError
from plugrad.kernels.decomposition import MATRIX_DTYPES, square_shape
from plugrad.types.shapes import broadcast
from plugrad.types.specs import Shaped, Spec


@kernel("MatrixSquareRoot", accepts=MATRIX_DTYPES)
def square_root(input: Spec) -> Spec:
    """Return the square root of each matrix whose eigenvalues have no negative real parts.

    A real matrix with a negative eigenvalue has no real one, and gives NaN.
    """
    return Shaped(square_shape(input), input.dtype)


@kernel("SylvesterSolve", accepts=MATRIX_DTYPES)
def sylvester_solve(a: Spec, b: Spec, rhs: Spec) -> Spec:
    """Return X with ``a X + X b = rhs``; NaN where an eigenvalue of a is minus one of b.

    The axes before the matrices are broadcast.

    Args:
        a: square matrices (…, m, m).
        b: square matrices (…, n, n), of the dtype of a.
        rhs: the right-hand sides (…, m, n), likewise.

    Returns:
        the solutions (…, m, n) in that dtype.
    """
    sizes = square_shape(a)[-1], square_shape(b)[-1]
    if len(rhs.shape) < 2 or rhs.shape[-2:] != sizes:
        raise ShapeError(f"rhs has shape {rhs.shape}; it must be matrices of shape {sizes}")
    batch = broadcast(broadcast(a.shape[:-2], b.shape[:-2]), rhs.shape[:-2])
    return Shaped((*batch, *sizes), check_same_dtype("SylvesterSolve", a, b, rhs))
