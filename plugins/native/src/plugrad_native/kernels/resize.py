"""Images of another size, and the gradients, row by row."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.extend import Pair, Shape, count_elements
from plugrad.kernels import resize
from plugrad_cpu.extend import empty, numpy_implementation, zeros
from plugrad_native.declare import (
    FLOAT_DTYPES,
    INT32,
    MAX_ELEMENTS,
    as_contiguous,
    find_c_functions,
    parallel_for,
    table,
)
from plugrad_native.variants import current_variant

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.extend import Kernel
    from plugrad_native.declare import Array, CFunction

C_RESIZE_BILINEAR: Final = find_c_functions("resize_bilinear", *FLOAT_DTYPES)
"""The C functions of bilinear resizing, by dtype."""
C_RESIZE_NEAREST_BY_ITEM_SIZE: Final = {
    size: current_variant().kernel(f"resize_nearest_{size}") for size in (1, 2, 4, 8)
}
"""The C functions of nearest-neighbour resizing, by the bytes of an element."""
C_RESIZE_GRADIENT: Final = find_c_functions("resize_gradient", *FLOAT_DTYPES)
"""The C functions of the gradients of both kinds of resizing, by dtype."""
SCRATCH_FLOATS_PER_COLUMN: Final = 4
"""The float32 of scratch memory for each column of the result: a struct ``place`` of csrc/resize.c."""


@lru_cache(maxsize=1024)
def describe_resize(
    image_shape: Shape, result_size: Pair, align_corners: bool, half_pixel_centers: bool
) -> Array:
    """Return the fields of the struct ``resizing`` in csrc/resize.c, for all rows of the results."""
    fields = *image_shape[1:], *result_size, align_corners, half_pixel_centers, 0, result_size[0]
    return np.array(fields, INT32)


def run_resize(
    c_function: CFunction,
    x: Array,
    out: Array,
    image_shape: Shape,
    size_and_flags: tuple[Pair, bool, bool],
    *is_nearest: bool,
) -> Array:
    """Call a C function that writes resized images or gradients to `out`, given the size and the flags of a resize."""
    count, (_, width), itemsize = image_shape[0], size_and_flags[0], x.itemsize
    parallel_for(
        c_function,
        ((as_contiguous(x), x.size // count), (out, out.size // count)),
        count,
        *(describe_resize(image_shape, *size_and_flags), *is_nearest),
        work=2 * (x.size + out.size),
        scratch_floats=SCRATCH_FLOATS_PER_COLUMN * width
        + -(-image_shape[2] * image_shape[3] * itemsize // 4),
    )
    return out


def is_supported(*shapes: Shape) -> bool:
    """Return whether C supports images of these shapes: they are neither empty nor too large."""
    return all(0 < count_elements(shape) < MAX_ELEMENTS for shape in shapes)


def make_resize(
    kernel: Kernel[..., Any], find_function: Callable[[Array], CFunction | None]
) -> Callable[..., Array]:
    """Return the implementation of a resize; `find_function` chooses its C function."""
    numpy_function = numpy_implementation(kernel)

    def implementation(
        images: Array, *, size: Pair, align_corners: bool, half_pixel_centers: bool
    ) -> Array:
        """Return the images resized to `size`, a height and a width."""
        shape = (images.shape[0], *size, images.shape[3])
        run = find_function(images)
        if run is None or not is_supported(images.shape, shape):
            return numpy_function(
                images,
                size=size,
                align_corners=align_corners,
                half_pixel_centers=half_pixel_centers,
            )
        how = size, align_corners, half_pixel_centers
        return run_resize(run, images, empty(shape, images.dtype), images.shape, how)

    return implementation


def make_resize_gradient(kernel: Kernel[..., Any], *, is_nearest: bool) -> Callable[..., Array]:
    """Return the implementation of the gradient of a resize."""
    numpy_function = numpy_implementation(kernel)

    def implementation(
        images: Array, dy: Array, *, size: Pair, align_corners: bool, half_pixel_centers: bool
    ) -> Array:
        """Return the gradient for the images, given dy for results with a height and a width `size`."""
        run = C_RESIZE_GRADIENT.get(dy.dtype)
        if run is None or not is_supported(images.shape, dy.shape):
            return numpy_function(
                images,
                dy,
                size=size,
                align_corners=align_corners,
                half_pixel_centers=half_pixel_centers,
            )
        out = zeros(images.shape, dy.dtype)
        how = size, align_corners, half_pixel_centers
        return run_resize(run, dy, out, images.shape, how, is_nearest)

    return implementation


def find_nearest_function(images: Array) -> CFunction | None:
    """Return the C function for nearest-neighbour resizing in the dtype of the images."""
    return (
        C_RESIZE_NEAREST_BY_ITEM_SIZE.get(images.itemsize) if images.dtype.kind in "biufc" else None
    )


table.update(
    {
        resize.resize_bilinear: make_resize(
            resize.resize_bilinear, lambda images: C_RESIZE_BILINEAR.get(images.dtype)
        ),
        resize.resize_nearest_neighbor: make_resize(
            resize.resize_nearest_neighbor, find_nearest_function
        ),
        resize.resize_bilinear_gradient: make_resize_gradient(
            resize.resize_bilinear_gradient, is_nearest=False
        ),
        resize.resize_nearest_neighbor_gradient: make_resize_gradient(
            resize.resize_nearest_neighbor_gradient, is_nearest=True
        ),
    }
)
