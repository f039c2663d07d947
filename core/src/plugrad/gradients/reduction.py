"""Gradients of the reduction kernels."""

# The parameters of lambdas cannot be annotated.
# pyright: reportUnknownMemberType=false

from plugrad.kernels import creation, indexing, movement, reduction
from plugrad.ops.binary import clip, equal, greater_equal, less, where
from plugrad.ops.transfer import stop_gradient
from plugrad.tape.rules import gradient, not_differentiable
from plugrad.tensor.tensor import Tensor
from plugrad.types.shapes import count_elements, reduced_shape
from plugrad.types.specs import Shape, Spec


def _broadcast_back(dy: Tensor, shape: Shape, axes: tuple[int, ...]) -> Tensor:
    """Broadcast dy back along the reduced axes."""
    return movement.broadcast_to(
        _restore_reduced_axes(dy, shape, axes) if dy.shape else dy, shape=shape
    )


def _restore_reduced_axes(y: Tensor, shape: Shape, axes: tuple[int, ...]) -> Tensor:
    """Reshape the result of a reduction to have size 1 on the reduced axes."""
    kept = reduced_shape(shape, axes, keep_dims=True)
    return y if y.shape == kept else movement.reshape(y, shape=kept)


def _mean_gradient(dy: Tensor, x_spec: Spec, axis: tuple[int, ...]) -> Tensor:
    count = count_elements(tuple(x_spec.shape[i] for i in axis))
    return _broadcast_back(dy / count if count else dy, x_spec.shape, axis)


def _variance_vjp(dy: Tensor, x: Tensor, axis: tuple[int, ...]) -> Tensor:
    """Return dy times the differences from the mean; x is shifted first, so that large numbers lose no digits."""
    count = count_elements(tuple(x.shape[i] for i in axis))
    kept = reduced_shape(x.shape, axis, keep_dims=True)
    if count_elements(x.shape):
        x = x - stop_gradient(movement.slice(x, begin=(0,) * x.ndim, size=kept))
    differences = x - reduction.mean(x, axis=axis, keep_dims=True)
    return (
        _restore_reduced_axes(dy * (2 / count) if count else dy, differences.shape, axis)
        * differences
    )


def _norm_vjp(dy: Tensor, x: Tensor, out: Tensor, axis: tuple[int, ...]) -> Tensor:
    """Return dy times the direction of x, which is 0 for a vector of zeros."""
    norm = _restore_reduced_axes(out, x.shape, axis)
    return _restore_reduced_axes(dy, x.shape, axis) * (x / where(equal(norm, 0), 1, norm))


def _extremum_gradient(dy: Tensor, x: Tensor, out: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Return dy at the extreme elements, divided evenly among equal ones."""
    is_extreme = equal(x, _restore_reduced_axes(out, x.shape, axes)).astype(x.dtype)
    return (
        _restore_reduced_axes(dy, x.shape, axes)
        * is_extreme
        / reduction.sum(is_extreme, axis=axes, keep_dims=True)
    )


def _product_gradient(dy: Tensor, x: Tensor, axis: tuple[int, ...]) -> Tensor:
    """Return dy times the product of all other elements, also correct where elements are 0."""
    others = tuple(i for i in range(x.ndim) if i not in axis)
    order = (*others, *axis)
    rest = tuple(x.shape[i] for i in order[len(others) :])
    flat = movement.reshape(
        movement.transpose(x, perm=order),
        shape=(*(x.shape[i] for i in others), count_elements(rest)),
    )
    products = movement.reshape(_multiply_others(flat), shape=tuple(x.shape[i] for i in order))
    restored = movement.transpose(products, perm=tuple(order.index(i) for i in range(x.ndim)))
    return _restore_reduced_axes(dy, x.shape, axis) * restored


def _multiply_others(x: Tensor) -> Tensor:
    """Return, for each element of the last axis, the product of all others.

    Neighbouring elements are multiplied in pairs, and the pairs again, as in a binary tree. On the way
    back, each element of a pair gets the product of all other pairs times the other element.
    """
    *lead, length = x.shape
    if length < 2:
        return creation.ones_like(x)
    padded = (
        x
        if length % 2 == 0
        else movement.pad(x, paddings=(*((0, 0),) * len(lead), (0, 1)), constant_value=1)
    )
    pairs = movement.reshape(padded, shape=(*lead, (length + 1) // 2, 2))
    rest = _multiply_others(reduction.prod(pairs, axis=(len(lead) + 1,), keep_dims=False))
    swapped = movement.reverse(pairs, dims=(len(lead) + 1,))
    products = movement.reshape(
        movement.expand_dims(rest, dim=len(lead) + 1) * swapped, shape=padded.shape
    )
    return movement.slice(products, begin=(0,) * x.ndim, size=x.shape)


def _gather_from_bins(dy: Tensor, x: Tensor, size: int) -> Tensor | None:
    """Return for each element of x the gradient of its bin; 0 for elements without a bin."""
    if size == 0:
        return None
    rows = dy.ndim - 1
    parts = indexing.gather(dy, clip(x, 0, size - 1), axis=rows, batch_dims=rows)
    return where(greater_equal(x, 0) & less(x, size), parts, 0)


gradient(reduction.sum, x=lambda dy, x_spec, axis: _broadcast_back(dy, x_spec.shape, axis))
gradient(reduction.mean, x=_mean_gradient)
gradient(reduction.variance, x=_variance_vjp)
gradient(reduction.euclidean_norm, x=_norm_vjp)
gradient(reduction.prod, x=_product_gradient)
gradient(
    reduction.max,
    x=lambda dy, x, out, reduction_indices: _extremum_gradient(dy, x, out, reduction_indices),
)
gradient(reduction.min, x=lambda dy, x, out, axis: _extremum_gradient(dy, x, out, axis))
gradient(reduction.bincount, weights=_gather_from_bins)
gradient(
    reduction.dense_bincount,
    weights=lambda dy, x, size, binary_output: (
        None if binary_output else _gather_from_bins(dy, x, size)
    ),
)

not_differentiable(reduction.all, reduction.any, because="bools do not change smoothly")
not_differentiable(reduction.argmax, reduction.argmin, because="they return positions")
