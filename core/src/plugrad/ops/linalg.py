"""Functions of linear algebra."""

from plugrad.errors import ShapeError
from plugrad.kernels import linalg, movement
from plugrad.ops.arguments import promoted
from plugrad.tensor import Tensor, TensorLike


def matmul(a: TensorLike, b: TensorLike) -> Tensor:
    """The matrix product of the last two axes; the axes before them are broadcast.

    >>> plugrad.matmul([[1.0, 2.0], [3.0, 4.0]], [[1.0], [10.0]])
    tensor([[21.],
            [43.]], dtype=float32)

    A 1-d operand is a row vector on the left and a column vector on the right, and its axis
    disappears.

    Raises:
        ShapeError: an operand is 0-d, or the inner sizes differ.
    """
    x, y = promoted(a, b, linalg.matmul, "matmul")
    if x.ndim == 0 or y.ndim == 0:
        raise ShapeError(
            f"matmul: shapes {x.shape} and {y.shape} must have an axis; use multiply for scalars"
        )
    if x.ndim > 1 and y.ndim > 1:
        return linalg.matmul(x, y)
    rows = x if x.ndim > 1 else movement.expand_dims(x, dim=0)
    columns = y if y.ndim > 1 else movement.expand_dims(y, dim=1)
    product = linalg.matmul(rows, columns)
    shape = (
        *product.shape[:-2],
        *(rows.shape[-2:-1] if x.ndim > 1 else ()),
        *(columns.shape[-1:] if y.ndim > 1 else ()),
    )
    return movement.reshape(product, shape=shape)
