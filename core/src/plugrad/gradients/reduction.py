"""Gradients of the reduction kernels."""

# The parameters of lambdas cannot be annotated.
# pyright: reportUnknownMemberType=false

from plugrad.kernels import creation, indexing, movement, reduction
from plugrad.ops.binary import clip, equal, greater_equal, less, where
from plugrad.tape.rules import gradient, not_differentiable
from plugrad.tensor.tensor import Tensor
from plugrad.types.shapes import reduced, size_of
from plugrad.types.specs import Shape, Spec


def _spread(dy: Tensor, shape: Shape, axes: tuple[int, ...]) -> Tensor:
    """Return dy repeated along the axes that were reduced; one number needs no axes to be repeated."""
    return movement.broadcast_to(_kept(dy, shape, axes) if dy.shape else dy, shape=shape)


def _kept(y: Tensor, shape: Shape, axes: tuple[int, ...]) -> Tensor:
    """Return y, the result of a reduction, with size 1 on the reduced axes."""
    kept = reduced(shape, axes, keep_dims=True)
    return y if y.shape == kept else movement.reshape(y, shape=kept)


def _mean(dy: Tensor, x_spec: Spec, axis: tuple[int, ...]) -> Tensor:
    count = size_of(tuple(x_spec.shape[i] for i in axis))
    return _spread(dy / count if count else dy, x_spec.shape, axis)


def _extreme(dy: Tensor, x: Tensor, out: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Return dy at the extreme elements; equal elements share it evenly."""
    is_extreme = equal(x, _kept(out, x.shape, axes)).astype(x.dtype)
    return (
        _kept(dy, x.shape, axes) * is_extreme / reduction.sum(is_extreme, axis=axes, keep_dims=True)
    )


def _product(dy: Tensor, x: Tensor, axis: tuple[int, ...]) -> Tensor:
    """Return dy times the product of the other elements, which is correct even where elements are 0."""
    others = tuple(i for i in range(x.ndim) if i not in axis)
    order = (*others, *axis)
    rest = tuple(x.shape[i] for i in order[len(others) :])
    flat = movement.reshape(
        movement.transpose(x, perm=order), shape=(*(x.shape[i] for i in others), size_of(rest))
    )
    products = movement.reshape(_product_of_others(flat), shape=tuple(x.shape[i] for i in order))
    restored = movement.transpose(products, perm=tuple(order.index(i) for i in range(x.ndim)))
    return _kept(dy, x.shape, axis) * restored


def _product_of_others(x: Tensor) -> Tensor:
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
    rest = _product_of_others(reduction.prod(pairs, axis=(len(lead) + 1,), keep_dims=False))
    swapped = movement.reverse(pairs, dims=(len(lead) + 1,))
    products = movement.reshape(
        movement.expand_dims(rest, dim=len(lead) + 1) * swapped, shape=padded.shape
    )
    return movement.slice(products, begin=(0,) * x.ndim, size=x.shape)


def _of_bins(dy: Tensor, x: Tensor, size: int) -> Tensor | None:
    """Return, for each element of x, the part of dy for its bin; 0 for elements without a bin."""
    if size == 0:
        return None
    rows = dy.ndim - 1
    parts = indexing.gather(dy, clip(x, 0, size - 1), axis=rows, batch_dims=rows)
    return where(greater_equal(x, 0) & less(x, size), parts, 0)


gradient(reduction.sum, x=lambda dy, x_spec, axis: _spread(dy, x_spec.shape, axis))
gradient(reduction.mean, x=_mean)
gradient(reduction.prod, x=_product)
gradient(
    reduction.max, x=lambda dy, x, out, reduction_indices: _extreme(dy, x, out, reduction_indices)
)
gradient(reduction.min, x=lambda dy, x, out, axis: _extreme(dy, x, out, axis))
gradient(reduction.bincount, weights=_of_bins)
gradient(
    reduction.dense_bincount,
    weights=lambda dy, x, size, binary_output: None if binary_output else _of_bins(dy, x, size),
)

not_differentiable(reduction.all, reduction.any, because="bools do not change smoothly")
not_differentiable(reduction.argmax, reduction.argmin, because="they return positions")
