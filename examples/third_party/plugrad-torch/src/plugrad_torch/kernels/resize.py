"""Resizing, one axis after the other, by source positions, because PyTorch's resizing has other conventions."""

import torch

from plugrad.extend import Shape
from plugrad.kernels import resize
from plugrad_torch.declare import Array, implements


@implements(resize.resize_bilinear)
def resize_bilinear(
    images: Array, *, size: Shape, align_corners: bool, half_pixel_centers: bool
) -> Array:
    """Return images interpolated between rows, then between columns."""
    y = images if images.is_floating_point() else images.float()
    for axis in (1, 2):
        low, high, share = _neighbour_positions(
            y, axis, size[axis - 1], align_corners, half_pixel_centers
        )
        first, second = y.index_select(axis, low), y.index_select(axis, high)
        y = first + (second - first) * share
    return y


@implements(resize.resize_bilinear_gradient)
def resize_bilinear_gradient(
    images: Array, dy: Array, *, size: Shape, align_corners: bool, half_pixel_centers: bool
) -> Array:
    """Return dy distributed between columns, then between rows."""
    for axis in (2, 1):
        low, high, share = _neighbour_positions(
            images, axis, size[axis - 1], align_corners, half_pixel_centers
        )
        share = share.to(dy.dtype)
        dx = _zeros_with_length(dy, axis, images.shape[axis])
        dy = dx.index_add_(axis, low, dy * (1 - share)).index_add_(axis, high, dy * share)
    return dy


@implements(resize.resize_nearest_neighbor)
def resize_nearest_neighbor(
    images: Array, *, size: Shape, align_corners: bool, half_pixel_centers: bool
) -> Array:
    """Return images of a size whose pixels are copies of the nearest ones."""
    for axis in (1, 2):
        shown = _source_positions(
            images.shape[axis], size[axis - 1], align_corners, half_pixel_centers
        )
        images = images.index_select(axis, shown)
    return images


@implements(resize.resize_nearest_neighbor_gradient)
def resize_nearest_neighbor_gradient(
    images: Array, dy: Array, *, size: Shape, align_corners: bool, half_pixel_centers: bool
) -> Array:
    """Return the sums of dy over the columns that show the same column, then over rows."""
    for axis in (2, 1):
        length = images.shape[axis]
        shown = _source_positions(length, size[axis - 1], align_corners, half_pixel_centers)
        dy = _zeros_with_length(dy, axis, length).index_add_(axis, shown, dy)
    return dy


def _zeros_with_length(dy: Array, axis: int, length: int) -> Array:
    """Return zeros of the shape of dy, but with another length of one axis."""
    return torch.zeros((*dy.shape[:axis], length, *dy.shape[axis + 1 :]), dtype=dy.dtype)


def _neighbour_positions(
    images: Array, axis: int, count: int, align_corners: bool, half_pixel_centers: bool
) -> tuple[Array, Array, Array]:
    """Return, for each place along an axis, the positions before and after it and its distance from the first."""
    length = images.shape[axis]
    steps = torch.arange(count, dtype=torch.float64)
    if align_corners and count > 1:
        places = steps * ((length - 1) / (count - 1))
    elif half_pixel_centers:
        places = ((steps + 0.5) * (length / count) - 0.5).clamp(min=0)
    else:
        places = steps * (length / max(count, 1))
    places = places.clamp(max=length - 1)
    low = places.long()
    dtype = images.dtype if images.is_floating_point() else torch.float32
    share = (places - low).to(dtype).reshape(-1, *[1] * (3 - axis))
    return low, (low + 1).clamp(max=length - 1), share


def _source_positions(
    length: int, count: int, align_corners: bool, half_pixel_centers: bool
) -> Array:
    """Return the position that each place along an axis shows; integers avoid rounding errors."""
    steps = torch.arange(count)
    if align_corners and count > 1:
        return (2 * steps * (length - 1) + count - 1) // (2 * (count - 1))
    if half_pixel_centers:
        return (2 * steps + 1) * length // (2 * count)
    return steps * length // max(count, 1)
