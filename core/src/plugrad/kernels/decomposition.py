"""Kernels that factor and invert matrices, which are the last two axes.

Args:
    input: matrices (…, rows, columns).

Returns:
    a tensor of the shape and the dtype of the input.
"""

from plugrad.contract.kernel import check_same_dtype, kernel
from plugrad.errors import ShapeError
from plugrad.types.dtype import complex64, complex128, float32, float64, int32
from plugrad.types.shapes import broadcast
from plugrad.types.specs import Shape, Shaped, Spec

MATRIX_DTYPES = frozenset({float32, float64, complex64, complex128})
REAL_DTYPE_OF_DTYPE = {float32: float32, float64: float64, complex64: float32, complex128: float64}
COMPLEX_DTYPE_OF_DTYPE = {
    float32: complex64,
    float64: complex128,
    complex64: complex64,
    complex128: complex128,
}


@kernel("Cholesky", accepts=MATRIX_DTYPES)
def cholesky(input: Spec) -> Spec:
    """Return the lower triangular L with ``L Lᴴ = input``, which is Hermitian and positive definite.

    Args:
        input: Hermitian, positive definite matrices (…, n, n).
    """
    return Shaped(square_shape(input), input.dtype)


@kernel("MatrixInverse", accepts=MATRIX_DTYPES)
def inverse(input: Spec) -> Spec:
    """Return the inverse of each matrix.

    Args:
        input: square matrices (…, n, n).
    """
    return Shaped(square_shape(input), input.dtype)


@kernel("MatrixSolve", accepts=MATRIX_DTYPES)
def solve(matrix: Spec, rhs: Spec) -> Spec:
    """Return X with ``matrix X = rhs``; the axes before the matrices are broadcast.

    Args:
        matrix: square matrices (…, n, n).
        rhs: the right-hand sides (…, n, columns), of the dtype of the matrices.

    Returns:
        the solutions (…, n, columns) in that dtype.
    """
    return _solution_spec("MatrixSolve", matrix, rhs)


@kernel("MatrixDeterminant", accepts=MATRIX_DTYPES)
def determinant(input: Spec) -> Spec:
    """Return the determinant of each matrix.

    Args:
        input: square matrices (…, n, n).

    Returns:
        a number for each matrix, in the dtype of the input.
    """
    return Shaped(square_shape(input)[:-2], input.dtype)


@kernel("LogMatrixDeterminant", accepts=MATRIX_DTYPES)
def log_determinant(input: Spec) -> tuple[Spec, ...]:
    """Return the sign of each determinant, and the logarithm of its absolute value.

    Args:
        input: square matrices (…, n, n).

    Returns:
        sign: the sign or the complex phase of each determinant, in the dtype of the input; 0 for a singular matrix.
        log: the logarithm of its absolute value, in the dtype of the real parts; -inf for a singular matrix.
    """
    shape = square_shape(input)[:-2]
    return Shaped(shape, input.dtype), Shaped(shape, REAL_DTYPE_OF_DTYPE[input.dtype])


@kernel("SelfAdjointEigV2", accepts=MATRIX_DTYPES)
def eigh(input: Spec) -> tuple[Spec, ...]:
    """Return the eigenvalues of Hermitian matrices in ascending order, and eigenvectors as columns.

    Args:
        input: Hermitian matrices (…, n, n).

    Returns:
        eigenvalues: real numbers (…, n), in the dtype of the real parts.
        eigenvectors: matrices (…, n, n) in the dtype of the input, whose columns have the length 1.
    """
    shape = square_shape(input)
    return Shaped(shape[:-1], REAL_DTYPE_OF_DTYPE[input.dtype]), Shaped(shape, input.dtype)


@kernel("Svd", accepts=MATRIX_DTYPES)
def svd(input: Spec, *, full_matrices: bool = False) -> tuple[Spec, ...]:
    """Return U, the singular values in descending order, and Vᴴ, with ``input = U S Vᴴ``.

    Args:
        full_matrices: whether U and Vᴴ are square; otherwise k is the smaller of rows and columns.

    Returns:
        u: matrices (…, rows, k) with orthonormal columns, in the dtype of the input.
        s: the singular values, in the dtype of the real parts.
        vh: matrices (…, k, columns) with orthonormal rows.
    """
    *batch, rows, columns = _check_matrices(input)
    least = min(rows, columns)
    return (
        Shaped((*batch, rows, rows if full_matrices else least), input.dtype),
        Shaped((*batch, least), REAL_DTYPE_OF_DTYPE[input.dtype]),
        Shaped((*batch, columns if full_matrices else least, columns), input.dtype),
    )


@kernel("Qr", accepts=MATRIX_DTYPES)
def qr(input: Spec, *, full_matrices: bool = False) -> tuple[Spec, ...]:
    """Return Q with orthonormal columns and the upper triangular R, with ``input = Q R``.

    Args:
        full_matrices: whether Q is square; otherwise k is the smaller of rows and columns.

    Returns:
        q: matrices (…, rows, k) in the dtype of the input.
        r: matrices (…, k, columns) in the dtype of the input.
    """
    *batch, rows, columns = _check_matrices(input)
    inner = rows if full_matrices else min(rows, columns)
    return Shaped((*batch, rows, inner), input.dtype), Shaped((*batch, inner, columns), input.dtype)


@kernel("Lu", accepts=MATRIX_DTYPES)
def lu(input: Spec) -> tuple[Spec, ...]:
    """Return the factors of ``input[order] = L U``, with the largest pivot of each column on the diagonal of U.

    Returns:
        lower: matrices (…, rows, k) with 1 on the diagonal and 0 above it; k is the smaller of rows and columns.
        upper: matrices (…, k, columns) with 0 below the diagonal.
        order: positions (…, rows) as int32: which row of the input each row of the product is.
    """
    *batch, rows, columns = _check_matrices(input)
    inner = min(rows, columns)
    return (
        Shaped((*batch, rows, inner), input.dtype),
        Shaped((*batch, inner, columns), input.dtype),
        Shaped((*batch, rows), int32),
    )


@kernel("TriangularSolve", accepts=MATRIX_DTYPES)
def triangular_solve(
    matrix: Spec, rhs: Spec, *, lower: bool = False, unit_diagonal: bool = False
) -> Spec:
    """Return X with ``matrix X = rhs`` by substitution; the other triangle of the matrix is not looked at.

    A 0 on the diagonal gives infinities or NaN. The axes before the matrices are broadcast.

    Args:
        matrix: square matrices (…, n, n).
        rhs: the right-hand sides (…, n, columns), of the dtype of the matrices.
        lower: whether the matrices are lower triangular, and not upper.
        unit_diagonal: whether the diagonal counts as 1, whatever it holds.

    Returns:
        the solutions (…, n, columns) in that dtype.
    """
    return _solution_spec("TriangularSolve", matrix, rhs)


@kernel("Eig", accepts=MATRIX_DTYPES)
def eig(input: Spec) -> tuple[Spec, ...]:
    """Return the complex eigenvalues of square matrices, and eigenvectors of length 1 as columns.

    Args:
        input: square matrices (…, n, n).

    Returns:
        eigenvalues: complex numbers (…, n), in the complex dtype of the precision of the input.
        eigenvectors: complex matrices (…, n, n).
    """
    shape, dtype = square_shape(input), COMPLEX_DTYPE_OF_DTYPE[input.dtype]
    return Shaped(shape[:-1], dtype), Shaped(shape, dtype)


def _solution_spec(kernel_name: str, matrix: Spec, rhs: Spec) -> Spec:
    """Return the shape and the dtype of the solutions of linear equations."""
    shape = square_shape(matrix)
    if len(rhs.shape) < 2 or rhs.shape[-2] != shape[-1]:
        raise ShapeError(f"rhs has shape {rhs.shape}; it must be matrices of {shape[-1]} rows")
    batch = broadcast(shape[:-2], rhs.shape[:-2])
    return Shaped((*batch, *rhs.shape[-2:]), check_same_dtype(kernel_name, matrix, rhs))


def _check_matrices(x: Spec) -> Shape:
    """Return the shape of x; raise unless it has at least two axes."""
    if len(x.shape) < 2:
        raise ShapeError(f"shape {x.shape} must have two axes or more")
    return x.shape


def square_shape(x: Spec) -> Shape:
    """Return the shape of x; raise unless its last two axes have the same size."""
    if _check_matrices(x)[-1] != x.shape[-2]:
        raise ShapeError(f"the matrices of shape {x.shape} must be square")
    return x.shape
