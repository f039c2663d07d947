"""Resizing: one axis after the other, with index arithmetic."""

import numpy as np

from plugrad.extend import Shape
from plugrad.kernels import resize
from plugrad_cpu.declare import Array, table
from plugrad_cpu.kernels.reduction import sum_accurately
from plugrad_cpu.memory import empty


@table.implements(resize.resize_bilinear)
def resize_bilinear(
    images: Array, *, size: Shape, align_corners: bool, half_pixel_centers: bool
) -> Array:
    """Return images resized to a height and a width, interpolated between rows, then between columns."""
    y = images if images.dtype.kind == "f" else images.astype(np.float32)
    for axis in (1, 2):
        low, high, share = _neighbour_positions(
            y, axis, size[axis - 1], align_corners, half_pixel_centers
        )
        shape = (*y.shape[:axis], size[axis - 1], *y.shape[axis + 1 :])
        first, second = empty(shape, y.dtype), empty(shape, y.dtype)
        if second.size:
            np.take(y, low, axis, out=first, mode="clip")
            np.take(y, high, axis, out=second, mode="clip")
        second -= first
        second *= share
        second += first
        y = second
    return y


@table.implements(resize.resize_bilinear_gradient)
def resize_bilinear_gradient(
    images: Array, dy: Array, *, size: Shape, align_corners: bool, half_pixel_centers: bool
) -> Array:
    """Return the gradient for the images: dy distributed between columns, then between rows."""
    as_products = (
        dy.dtype.char in "fd" and dy.size and np.isfinite(sum_accurately(dy, (0, 1, 2, 3), False))
    )
    for axis in (2, 1):
        low, high, share = _neighbour_positions(
            images, axis, size[axis - 1], align_corners, half_pixel_centers
        )
        share, length = share.astype(dy.dtype), images.shape[axis]
        if as_products:  # elements that are infinite or NaN would reach others
            flat, steps = share.reshape(-1), np.arange(len(low))
            weights = np.zeros((length, len(low)), dy.dtype)
            weights[low, steps] = 1 - flat
            weights[high, steps] += flat
            shape = (*dy.shape[:axis], length, *dy.shape[axis + 1 :])
            dy = (weights @ dy.reshape(*dy.shape[: axis + 1], -1)).reshape(shape)
        else:
            dy = _scatter_along_axis(dy * (1 - share), low, length, axis) + _scatter_along_axis(
                dy * share, high, length, axis
            )
    return dy


@table.implements(resize.resize_nearest_neighbor)
def resize_nearest_neighbor(
    images: Array, *, size: Shape, align_corners: bool, half_pixel_centers: bool
) -> Array:
    """Return images resized to a height and a width by nearest neighbours: rows, then columns, are gathered."""
    for axis in (1, 2):
        shown = _nearest_positions(
            images.shape[axis], size[axis - 1], align_corners, half_pixel_centers
        )
        images = images.take(shown, axis)
    return images


@table.implements(resize.resize_nearest_neighbor_gradient)
def resize_nearest_neighbor_gradient(
    images: Array, dy: Array, *, size: Shape, align_corners: bool, half_pixel_centers: bool
) -> Array:
    """Return the gradient for the images: the sums of dy over the pixels that show the same pixel."""
    for axis in (2, 1):
        length = images.shape[axis]
        shown = _nearest_positions(length, size[axis - 1], align_corners, half_pixel_centers)
        dy = _scatter_along_axis(dy, shown, length, axis)
    return dy


def _neighbour_positions(
    images: Array, axis: int, output_size: int, align_corners: bool, half_pixel_centers: bool
) -> tuple[Array, Array, Array]:
    """Return for each output pixel along an axis the input positions around it, and its distance from the first.

    The distance has as many axes as the images, so that it can be multiplied with them.
    """
    length = images.shape[axis]
    steps = np.arange(output_size)
    if align_corners and output_size > 1:
        places = steps * ((length - 1) / (output_size - 1))
    elif half_pixel_centers:
        places = np.clip((steps + 0.5) * (length / output_size) - 0.5, 0, None)
    else:
        places = steps * (length / output_size)
    places = np.minimum(places, length - 1)
    low = places.astype(np.intp)
    share: Array = (places - low).astype(images.dtype)
    return low, np.minimum(low + 1, length - 1), share.reshape(-1, *[1] * (3 - axis))


def _nearest_positions(
    input_size: int, output_size: int, align_corners: bool, half_pixel_centers: bool
) -> Array:
    """Return for each output pixel along an axis the position of the nearest input pixel."""
    steps = np.arange(output_size)
    if align_corners and output_size > 1:
        return (2 * steps * (input_size - 1) + output_size - 1) // (2 * (output_size - 1))
    if half_pixel_centers:
        return (2 * steps + 1) * input_size // (2 * output_size)
    return steps * input_size // output_size


def _scatter_along_axis(parts: Array, positions: Array, axis_size: int, axis: int) -> Array:
    """Return zeros of a length along an axis, with each part added at its position; positions are sorted.

    First the first part of every place is added, then the second one of those that have two, and so on.
    """
    starts = np.flatnonzero(np.diff(positions, prepend=-1))
    counts = np.diff(starts, append=len(positions))
    repeats, lead = len(positions) // axis_size if axis_size else 0, (slice(None),) * axis
    if (
        repeats * axis_size == len(positions)
        and len(counts) == axis_size
        and (counts == repeats).all()
    ):
        total = np.array(parts[(*lead, slice(None, None, repeats))])
        for turn in range(1, repeats):
            total += parts[(*lead, slice(turn, None, repeats))]
        return total
    sums: Array = np.zeros((*parts.shape[:axis], axis_size, *parts.shape[axis + 1 :]), parts.dtype)
    for turn in range(counts.max(initial=0)):
        now = starts[counts > turn] + turn
        sums[(*lead, positions[now])] += parts.take(now, axis)
    return sums
