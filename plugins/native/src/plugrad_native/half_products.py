"""Products and convolutions of bfloat16: pairs of neighbours are multiplied at once, and added in float32.

Only variants with wide vectors have C for them: otherwise, it takes less time to convert, and to multiply in float32.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from plugrad.extend import count_elements
from plugrad.kernels import convolution, convolution3d, linalg
from plugrad_cpu.extend import empty, mark_results_tracked
from plugrad_native.declare import MAX_ELEMENTS, as_contiguous
from plugrad_native.kernels.convolution import (
    as_pixel_rows,
    is_in_range,
    is_pointwise,
    prefers_reversed_filters,
)
from plugrad_native.kernels.linalg import (
    FLOAT32_PRODUCTS_PER_ADDITION,
    MatmulPlan,
    as_matrix_operand,
    plan_matmul,
    run_matmul,
)
from plugrad_native.variants import current_variant
from plugrad_native.windows import describe_window, reverse_window, run_windows

if TYPE_CHECKING:
    from plugrad.extend import Implementation, Shape, Window
    from plugrad_native.declare import Array

BFLOAT16_PRODUCTS_PER_ADDITION: Final = 4 * FLOAT32_PRODUCTS_PER_ADDITION
"""How many products of bfloat16 take as long as one elementwise addition."""
C_MATMUL_BFLOAT16: Final = current_variant().kernel("matmul_bfloat16")
"""The C function that multiplies matrices of bfloat16."""
C_CONVOLUTION_BFLOAT16: Final = current_variant().kernel("convolution_direct_bfloat16")
"""The C function that convolves images and filters of bfloat16."""
C_GET_BFLOAT16_SCRATCH_SIZE: Final = current_variant().kernel("brain_scratch")
"""The C function that returns how many float32 of scratch memory such a convolution needs."""


def make_matmul(fallback: Implementation) -> Implementation:
    """Return the implementation of bfloat16 matrix products; `fallback` computes those that C does not support."""

    @mark_results_tracked
    def matmul(a: Array, b: Array, *, transpose_a: bool, transpose_b: bool) -> Array:
        """Return the matrix products over the last two axes."""
        found = multiply_matrices(a, b, transpose_a, transpose_b)
        if found is None:
            return fallback(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
        return found

    return matmul


def multiply_matrices(a: Array, b: Array, transpose_a: bool, transpose_b: bool) -> Array | None:
    """Return the matrix products over the last two axes, or None if C does not support them."""
    left, turned_a = as_matrix_operand(a, transpose_a)
    right, turned_b = as_matrix_operand(b, transpose_b)
    planned = plan_bfloat16_matmul(left.shape, right.shape, turned_a, turned_b)
    if planned is None:
        return None
    plan, work = planned
    out = empty(plan.shape, a.dtype)
    run_matmul(C_MATMUL_BFLOAT16, as_contiguous(left), as_contiguous(right), out, plan, work)
    return out


@lru_cache(maxsize=1024)
def plan_bfloat16_matmul(
    a: Shape, b: Shape, transpose_a: bool, transpose_b: bool
) -> tuple[MatmulPlan, int] | None:
    """Return how C multiplies matrices of shapes `a` and `b`, and the work in additions, or None if it does not."""
    plan = plan_matmul(a, b, transpose_a, transpose_b)
    sizes = [count_elements(shape) for shape in (a, b, plan.shape)]
    if not min(sizes[:2]) or max(sizes) >= MAX_ELEMENTS:
        return None
    return plan, sizes[2] * plan.sizes_and_strides[2] // BFLOAT16_PRODUCTS_PER_ADDITION


def correlate(x: Array, filter: Array, window: Window) -> Array | None:
    """Return the cross-correlation of channels-last images for a `Window`, or None if C does not support it."""
    descriptor = describe_window(x.shape, window)
    if descriptor is None or x.shape[-1] % 2:
        return None
    if not is_in_range(x.shape, filter.shape, window):
        return None
    channels = filter.shape[-1]
    out = empty((x.shape[0], *window.out, channels), x.dtype)
    weights = as_contiguous(filter)
    run_windows(
        lambda part, x, out, scratch: (
            C_CONVOLUTION_BFLOAT16,
            x,
            weights,
            out,
            part,
            channels,
            scratch,
        ),
        descriptor,
        [as_contiguous(x)],
        [out],
        work=out.size * (filter.size // channels) // BFLOAT16_PRODUCTS_PER_ADDITION,
        scratch_floats=C_GET_BFLOAT16_SCRATCH_SIZE(descriptor, channels),
    )
    return out


def make_convolution(fallback: Implementation) -> Implementation:
    """Return the implementation of bfloat16 convolutions; `fallback` computes those that C does not support."""

    def convolution(x: Array, filter: Array, *, window: Window) -> Array:
        """Return the cross-correlation of images with filters, for a `Window`."""
        found = correlate(x, filter, window)
        return fallback(x, filter, window=window) if found is None else found

    return convolution


def make_input_gradient(fallback: Implementation) -> Implementation:
    """Return the implementation of input gradients of bfloat16 convolutions, with a fallback for others."""

    def input_gradient(dy: Array, filter: Array, *, input_shape: Shape, window: Window) -> Array:
        """Return the gradient of a convolution, for a `Window`, with respect to its images."""
        found = None
        if is_pointwise(input_shape, window) and dy.size and filter.size:
            found = multiply_matrices(as_pixel_rows(dy), as_pixel_rows(filter), False, True)
        elif max(window.strides) == 1 and prefers_reversed_filters(
            count_elements(window.size), input_shape[-1]
        ):
            turned = filter[(slice(None, None, -1),) * len(window.size)].swapaxes(-1, -2)
            found = correlate(dy, turned, reverse_window(input_shape[1:-1], window))
        if found is None:
            return fallback(dy, filter, input_shape=input_shape, window=window)
        return found.reshape(input_shape)

    return input_gradient


def make_filter_gradient(fallback: Implementation) -> Implementation:
    """Return the implementation of filter gradients of bfloat16 convolutions, with a fallback for others."""

    def filter_gradient(x: Array, dy: Array, *, filter_shape: Shape, window: Window) -> Array:
        """Return the gradient of a convolution, for a `Window`, with respect to its filters."""
        found = None
        if is_pointwise(x.shape, window) and x.size and dy.size:
            found = multiply_matrices(as_pixel_rows(x), as_pixel_rows(dy), True, False)
        if found is None:
            return fallback(x, dy, filter_shape=filter_shape, window=window)
        return found.reshape(filter_shape)

    return filter_gradient


BFLOAT16_IMPLEMENTATION_MAKERS: Final = {
    linalg.matmul: make_matmul,
    convolution.conv2d: make_convolution,
    convolution.conv2d_input_gradient: make_input_gradient,
    convolution.conv2d_filter_gradient: make_filter_gradient,
    convolution3d.conv3d: make_convolution,
    convolution3d.conv3d_input_gradient: make_input_gradient,
    convolution3d.conv3d_filter_gradient: make_filter_gradient,
}
"""By kernel: the function that makes its bfloat16 implementation, given the fallback in float32."""
