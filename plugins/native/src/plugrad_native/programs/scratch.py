"""The scratch memory of convolutions and their gradients, which memory plans count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plugrad.extend import count_elements
from plugrad.kernels import convolution, convolution3d, fused
from plugrad_cpu.extend import thread_pool
from plugrad_native.declare import FLOAT32
from plugrad_native.kernels.convolution import (
    count_scratch_floats,
    divide_filter_gradient,
    estimate_work,
    find_reversed_window,
    is_pointwise,
    is_supported,
)
from plugrad_native.windows import count_window_parts, describe_window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugrad.extend import Call, Shaped, Value

CONVOLUTION_KERNELS: Final = frozenset({convolution.conv2d, convolution3d.conv3d, fused.conv2d})
"""The kernels of convolutions whose scratch memory is counted."""
INPUT_GRADIENT_KERNELS: Final = frozenset(
    {convolution.conv2d_input_gradient, convolution3d.conv3d_input_gradient}
)
"""The kernels of gradients of convolutions with respect to images."""
FILTER_GRADIENT_KERNELS: Final = frozenset(
    {convolution.conv2d_filter_gradient, convolution3d.conv3d_filter_gradient}
)
"""The kernels of gradients of convolutions with respect to filters."""


def count_scratch_bytes(call: Call, specs: Mapping[Value, Shaped]) -> int:
    """Return the bytes that the pack's implementation of a kernel call takes beside the results; often 0."""
    if call.kernel not in CONVOLUTION_KERNELS | INPUT_GRADIENT_KERNELS | FILTER_GRADIENT_KERNELS:
        return 0
    first, second = [specs[v] for v in call.inputs[:2] if v is not None]
    result, window = specs[call.outputs[0]], call.attrs["window"]
    images = result if call.kernel in INPUT_GRADIENT_KERNELS else first
    filters = result if call.kernel in FILTER_GRADIENT_KERNELS else second
    dtype = images.dtype.numpy
    is_direct, filter_copies, channels = dtype == FLOAT32, 0, filters.shape[-1]
    windows, positions = (images.shape, window), result
    if not is_supported(images.shape, filters.shape, window, dtype):
        return 0
    if is_direct and call.kernel not in CONVOLUTION_KERNELS and is_pointwise(images.shape, window):
        return 0
    if call.kernel in INPUT_GRADIENT_KERNELS:
        back = find_reversed_window(first.shape, dtype, images.shape, window)
        is_direct = back is not None
        if back is None:
            positions = first
        else:
            windows, filter_copies, channels = (first.shape, back), 1, images.shape[-1]
    descriptor = describe_window(*windows)
    if descriptor is None:
        return 0
    if filters is not result:
        image_size, result_size = count_elements(first.shape), count_elements(result.shape)
        products = count_elements(positions.shape) * (count_elements(filters.shape) // channels)
        parts = count_window_parts(
            images.shape[0],
            estimate_work(image_size, result_size, products),
            keeps_images_whole=positions is first,
        )
    elif is_direct:
        groups, parts_of_weights = divide_filter_gradient(first.shape, second.shape, filters.shape)
        filter_copies = groups - 1
        parts = groups * parts_of_weights if thread_pool.count > 1 else 1
    else:
        parts = 1
    floats = count_scratch_floats(descriptor, channels, dtype, is_direct=is_direct)
    filter_bytes = filter_copies * count_elements(filters.shape) * dtype.itemsize
    return parts * floats * FLOAT32.itemsize + filter_bytes
