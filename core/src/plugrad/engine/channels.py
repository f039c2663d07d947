"""Images with the channels before the spatial axes, which kernels get with the channels last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.kernels import movement

if TYPE_CHECKING:
    from plugrad.tensor.tensor import Tensor


def channels_last(x: Tensor) -> Tensor:
    """Return images (batch, channels, spatial axes …) with the channels last."""
    return movement.transpose(x, perm=(0, *range(2, x.ndim), 1))


def channels_first(x: Tensor) -> Tensor:
    """Return images (batch, spatial axes …, channels) with the channels before the spatial axes."""
    last = x.ndim - 1
    return movement.transpose(x, perm=(0, last, *range(1, last)))


def broadcastable_channels_last(x: Tensor, spatial_rank: int) -> Tensor:
    """Return a tensor that broadcasts to images with channels first, such as a bias, for images with channels last.

    `spatial_rank` is the number of spatial axes. A vector has one element for each channel in both orders, so it is
    returned unchanged.
    """
    if x.ndim < 2:
        return x
    return channels_last(movement.reshape(x, shape=(1,) * (spatial_rank + 2 - x.ndim) + x.shape))
