"""Kernels of linear algebra."""

from plugrad.dtype import NUMERIC
from plugrad.errors import ShapeError
from plugrad.kernel import Shaped, Spec, accepted, agreed, kernel
from plugrad.shapes import broadcast


@kernel("BatchMatMul", accepts=NUMERIC)
def matmul(a: Spec, b: Spec, *, transpose_a: bool = False, transpose_b: bool = False) -> Spec:
    """Multiply matrices, which are the last two axes; the axes before them are broadcast."""
    accepted("BatchMatMul", a, NUMERIC)
    if len(a.shape) < 2 or len(b.shape) < 2:
        raise ShapeError(f"BatchMatMul: shapes {a.shape} and {b.shape} must have two axes or more")
    rows, inner_a = a.shape[-2:][::-1] if transpose_a else a.shape[-2:]
    inner_b, columns = b.shape[-2:][::-1] if transpose_b else b.shape[-2:]
    if inner_a != inner_b:
        flags = (
            f" (transpose_a={transpose_a}, transpose_b={transpose_b})"
            if transpose_a or transpose_b
            else ""
        )
        raise ShapeError(
            f"BatchMatMul: shapes {a.shape} and {b.shape}{flags} do not match: {inner_a} columns meet {inner_b} rows"
        )
    return Shaped(
        (*broadcast(a.shape[:-2], b.shape[:-2]), rows, columns), agreed("BatchMatMul", a, b)
    )
