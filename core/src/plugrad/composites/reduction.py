"""Reductions that other kernels compute."""

from typing import Final

from plugrad.engine.composites import composite
from plugrad.kernels import binary, creation, movement, reduction, unary
from plugrad.ops.arguments import cast
from plugrad.ops.binary import greater, less, where
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import HALVES, DType, float32, float64
from plugrad.types.shapes import count_elements, reduced_shape


@composite(reduction.variance)
def variance(x: Tensor, *, axis: tuple[int, ...], keep_dims: bool) -> Tensor:
    """Return the average of the squared differences from the mean."""
    dtype = x.dtype
    x = cast(x, float32) if dtype in HALVES else x
    if count_elements(x.shape):
        # The average of large numbers is rounded; that of their differences from one of them hardly is.
        kept = reduced_shape(x.shape, axis, keep_dims=True)
        x = x - movement.slice(x, begin=(0,) * x.ndim, size=kept)
    mean = reduction.mean(x, axis=axis, keep_dims=True)
    squares = binary.squared_difference(x, mean)
    return cast(reduction.mean(squares, axis=axis, keep_dims=keep_dims), dtype)


@composite(reduction.euclidean_norm)
def euclidean_norm(x: Tensor, *, axis: tuple[int, ...], keep_dims: bool) -> Tensor:
    """Return the root of the sum of squares, added in a wider dtype, or of scaled numbers, to avoid overflow."""
    wide = _WIDER_DTYPE_OF_DTYPE.get(x.dtype)
    if wide is not None and wide in x.backend.dtypes():
        squares = reduction.sum(unary.square(cast(x, wide)), axis=axis, keep_dims=keep_dims)
        return cast(unary.sqrt(squares), x.dtype)
    squares = reduction.sum(unary.square(x), axis=axis, keep_dims=True)
    factor = _overflow_safe_scale(squares)
    squares = reduction.sum(unary.square(x * factor), axis=axis, keep_dims=True)
    norm = unary.sqrt(squares) / factor
    return (
        norm
        if keep_dims
        else movement.reshape(norm, shape=reduced_shape(x.shape, axis, keep_dims=False))
    )


_WIDER_DTYPE_OF_DTYPE: Final[dict[DType | str, DType]] = {
    **dict.fromkeys(HALVES, float32),
    float32: float64,
}
"""For each narrow dtype, the wider one in which its squares neither overflow nor vanish."""


def _overflow_safe_scale(squares: Tensor) -> Tensor:
    """Return 1, or a power of two that scales elements so that their squares neither overflow nor vanish."""
    limit, step = (2.0**800, 2.0**-700) if squares.dtype is float64 else (2.0**80, 2.0**-87)
    small_too = where(less(squares, 1 / limit), 1 / step, creation.ones_like(squares))
    return where(greater(squares, limit), step, small_too)
