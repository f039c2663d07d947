"""Kernels that factor and invert matrices, which are the last two axes."""

from plugrad.contract.kernel import accepted, agreed, kernel
from plugrad.errors import ShapeError
from plugrad.types.dtype import DType, complex64, complex128, float32, float64
from plugrad.types.shapes import broadcast
from plugrad.types.specs import Shape, Shaped, Spec

MATRICES = frozenset({float32, float64, complex64, complex128})
REAL_PART = {float32: float32, float64: float64, complex64: float32, complex128: float64}


@kernel("Cholesky", accepts=MATRICES)
def cholesky(input: Spec) -> Spec:
    """Return the lower triangular L with ``L Lᴴ = input``, which is Hermitian and positive definite."""
    return Shaped(_square("Cholesky", input), _dtype("Cholesky", input))


@kernel("MatrixInverse", accepts=MATRICES)
def inverse(input: Spec) -> Spec:
    """Return the inverse matrix."""
    return Shaped(_square("MatrixInverse", input), _dtype("MatrixInverse", input))


@kernel("MatrixSolve", accepts=MATRICES)
def solve(matrix: Spec, rhs: Spec) -> Spec:
    """Return X with ``matrix X = rhs``; the axes before the matrices are broadcast."""
    _dtype("MatrixSolve", matrix)
    shape = _square("MatrixSolve", matrix)
    if len(rhs.shape) < 2 or rhs.shape[-2] != shape[-1]:
        raise ShapeError(
            f"MatrixSolve: rhs has shape {rhs.shape}; it must be matrices of {shape[-1]} rows"
        )
    batch = broadcast(shape[:-2], rhs.shape[:-2])
    return Shaped((*batch, *rhs.shape[-2:]), agreed("MatrixSolve", matrix, rhs))


@kernel("MatrixDeterminant", accepts=MATRICES)
def determinant(input: Spec) -> Spec:
    """Return the determinant of each matrix."""
    shape = _square("MatrixDeterminant", input)
    return Shaped(shape[:-2], _dtype("MatrixDeterminant", input))


@kernel("LogMatrixDeterminant", accepts=MATRICES)
def log_determinant(input: Spec) -> tuple[Spec, ...]:
    """Return the sign of each determinant, and the logarithm of its absolute value."""
    shape = _square("LogMatrixDeterminant", input)[:-2]
    dtype = _dtype("LogMatrixDeterminant", input)
    return Shaped(shape, dtype), Shaped(shape, REAL_PART[dtype])


@kernel("SelfAdjointEigV2", accepts=MATRICES)
def eigh(input: Spec) -> tuple[Spec, ...]:
    """Return the eigenvalues of Hermitian matrices in ascending order, and eigenvectors as columns."""
    shape = _square("SelfAdjointEigV2", input)
    dtype = _dtype("SelfAdjointEigV2", input)
    return Shaped(shape[:-1], REAL_PART[dtype]), Shaped(shape, dtype)


@kernel("Svd", accepts=MATRICES)
def svd(input: Spec, *, full_matrices: bool = False) -> tuple[Spec, ...]:
    """Return U, the singular values in descending order, and Vᴴ, with ``input = U S Vᴴ``."""
    dtype = _dtype("Svd", input)
    *batch, rows, columns = _matrices("Svd", input)
    least = min(rows, columns)
    return (
        Shaped((*batch, rows, rows if full_matrices else least), dtype),
        Shaped((*batch, least), REAL_PART[dtype]),
        Shaped((*batch, columns if full_matrices else least, columns), dtype),
    )


@kernel("Qr", accepts=MATRICES)
def qr(input: Spec, *, full_matrices: bool = False) -> tuple[Spec, ...]:
    """Return Q with orthonormal columns and the upper triangular R, with ``input = Q R``."""
    dtype = _dtype("Qr", input)
    *batch, rows, columns = _matrices("Qr", input)
    inner = rows if full_matrices else min(rows, columns)
    return Shaped((*batch, rows, inner), dtype), Shaped((*batch, inner, columns), dtype)


def _dtype(name: str, x: Spec) -> DType:
    return accepted(name, x, MATRICES)


def _matrices(name: str, x: Spec) -> Shape:
    if len(x.shape) < 2:
        raise ShapeError(f"{name}: shape {x.shape} must have two axes or more")
    return x.shape


def _square(name: str, x: Spec) -> Shape:
    if _matrices(name, x)[-1] != x.shape[-2]:
        raise ShapeError(f"{name}: the matrices of shape {x.shape} must be square")
    return x.shape
