"""Attention: averages of values, weighted by how well keys match queries."""

from __future__ import annotations

from functools import reduce
from math import inf, sqrt
from typing import TYPE_CHECKING, Any

from plugrad.errors import ShapeError
from plugrad.kernels import attention as kernels
from plugrad.ops.arguments import (
    WEAKLY_TYPED_SCALAR_TYPES,
    as_tensor,
    cast,
    have_one_dtype,
    promote_named_operands,
)
from plugrad.ops.attributes import check_finite
from plugrad.ops.binary import where
from plugrad.ops.movement import broadcast_to, reshape
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import bool_
from plugrad.types.shapes import broadcast

if TYPE_CHECKING:
    from plugrad.tensor.tensor import TensorLike
    from plugrad.types.specs import Shape


def attention(
    q: TensorLike,
    k: TensorLike,
    v: TensorLike,
    mask: TensorLike | None = None,
    *,
    scale: float | None = None,
) -> Tensor:
    """The average of values for each query, weighted by the softmax of how well their keys match it.

    ``softmax(scale * q kᵀ + mask) v``, the scaled dot-product attention of Vaswani et al., "Attention
    is all you need" (2017). The matrix of weights is not kept: it is computed for some queries at a
    time, and again for the gradient, with sums that are corrected as the largest score grows where
    there are many keys (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018;
    Dao et al., "FlashAttention", 2022). Only the gradient for a mask of numbers takes the whole matrix.

    >>> q = plugrad.asarray([[8.0, 0.0]])
    >>> k = plugrad.asarray([[8.0, 0.0], [0.0, 8.0], [8.0, 0.0]])
    >>> v = plugrad.asarray([[1.0], [2.0], [3.0]])
    >>> plugrad.attention(q, k, v)
    tensor([[2.]], dtype=float32)
    >>> plugrad.attention(q, k, v, [[False, False, True]])
    tensor([[3.]], dtype=float32)

    The result has the shape ``(..., queries, size)``, and the dtype to which q, k, v and a mask of
    numbers promote; integers and bools become float32.

    Args:
        q: queries, of shape ``(..., queries, width)``; the axes before the last two broadcast.
        k: keys, of shape ``(..., keys, width)``.
        v: values, of shape ``(..., keys, size)``.
        mask: of a shape that broadcasts to ``(..., queries, keys)``: bools that say which keys a query
            may use, or numbers that are added to the scores. A query without any key gives 0.
        scale: what scores are multiplied by; None means ``1 / sqrt(width)``.

    Raises:
        ShapeError: the shapes do not fit each other.
        DTypeError: a tensor holds complex numbers or strings.
        ArgumentError: `scale` is not a number.
        ArgumentValueError: `scale` is not finite.
    """
    if mask is not None or not _are_aligned(q, k, v):
        q, k, v, mask = _promote_and_broadcast_operands(q, k, v, mask)
    factor = (
        1 / sqrt(max(q.shape[-1], 1))  # type: ignore[union-attr]
        if scale is None
        else check_finite(scale, "attention", "scale")
    )
    return kernels.attention.call((q, k, v, mask), {"scale": factor})


def _are_aligned(*operands: Any) -> bool:
    """Return whether queries, keys and values have one dtype and the same axes before the last two."""
    if not have_one_dtype(operands):
        return False
    q, k, v = (x.array.shape for x in operands)
    return (
        operands[0].array.dtype in kernels.attention.accepted_dtypes
        and len(q) >= 2
        and len(q) == len(k) == len(v)
        and q[:-2] == k[:-2] == v[:-2]
    )


def _promote_and_broadcast_operands(
    q: TensorLike, k: TensorLike, v: TensorLike, mask: TensorLike | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return the operands as tensors of one dtype whose axes before the last two are those of the result."""
    home = next((x.backend for x in (q, k, v, mask) if isinstance(x, Tensor)), None)
    if mask is not None and (type(mask) is bool or type(mask) not in WEAKLY_TYPED_SCALAR_TYPES):
        mask = as_tensor(mask, "attention", "mask", backend=home)
    is_bool = isinstance(mask, Tensor) and mask.dtype is bool_
    given = {
        name: as_tensor(x, "attention", name, backend=home)
        for name, x in zip("qkv", (q, k, v), strict=True)
    }
    operands = given if mask is None or is_bool else {**given, "mask": mask}
    q, k, v, *masks = promote_named_operands(operands, kernels.attention, "attention").values()
    for name, x in zip("qkv", (q, k, v), strict=True):
        if x.ndim < 2:
            raise ShapeError(
                f"attention: {name} has shape {x.shape}; it must have at least two axes"
            )
    mask = cast(where(mask, 0.0, -inf), q.dtype) if is_bool else next(iter(masks), None)  # type: ignore[arg-type]
    batch = reduce(broadcast, (x.shape[:-2] for x in (q, k, v)))
    if mask is not None:
        mask = reshape(mask, (1,) * (2 - mask.ndim) + mask.shape) if mask.ndim < 2 else mask
        batch = broadcast(batch, mask.shape[:-2])
        shape = batch if any(n != 1 for n in mask.shape[:-2]) else ()
        shape = (*shape, *mask.shape[-2:])
        mask = reshape(mask, shape) if len(shape) == 2 else _broadcast_if_needed(mask, shape)
    q, k, v = (_broadcast_if_needed(x, (*batch, *x.shape[-2:])) for x in (q, k, v))
    return q, k, v, mask


def _broadcast_if_needed(x: Tensor, shape: Shape) -> Tensor:
    """Broadcast x to a shape, unless it has that shape already."""
    return x if x.shape == shape else broadcast_to(x, shape)
