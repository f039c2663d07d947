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


def channel_last(x: Tensor, axes: int) -> Tensor:
    """Return what is added to images with the channels first as what is added to them with the channels last.

    Something with one axis has one element for each channel, in either order.
    """
    if x.ndim < 2:
        return x
    return channels_last(movement.reshape(x, shape=(1,) * (axes + 2 - x.ndim) + x.shape))
