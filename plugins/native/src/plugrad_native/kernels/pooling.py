"""Pooling over windows of images with up to three spatial axes; padding does not count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from plugrad.extend import count_elements
from plugrad.kernels import pooling
from plugrad_cpu.extend import empty, numpy_implementation
from plugrad_native.declare import (
    FLOAT_DTYPES,
    INT32,
    INTEGER_DTYPES,
    MAX_ELEMENTS,
    Array,
    as_contiguous,
    find_c_functions,
    table,
)
from plugrad_native.windows import describe_window, run_windows

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.extend import Kernel, Shape, Window
    from plugrad_native.declare import CFunction, CFunctionsByDtype

C_MAX_POOL = find_c_functions("max_pool", *FLOAT_DTYPES, *INTEGER_DTYPES)
"""The C functions of max pooling, by dtype."""
C_MAX_POOL_GRADIENT = find_c_functions("max_pool_gradient", *FLOAT_DTYPES)
"""The C functions of the gradient of max pooling, by dtype."""
C_MAX_POOL_WITH_ARGMAX = find_c_functions("max_pool_with_argmax", *FLOAT_DTYPES, *INTEGER_DTYPES)
"""The C functions of max pooling that also return the index of each maximum, by dtype."""
C_AVERAGE_POOL = find_c_functions("avg_pool", *FLOAT_DTYPES)
"""The C functions of average pooling, by dtype."""
C_AVERAGE_POOL_GRADIENT = find_c_functions("avg_pool_gradient", *FLOAT_DTYPES)
"""The C functions of the gradient of average pooling, by dtype."""

numpy_pool: Final = numpy_implementation(pooling.pool)
"""NumPy's implementation of the kernel `pool`."""
numpy_max_pool_with_argmax: Final = numpy_implementation(pooling.max_pool_with_argmax)
"""NumPy's implementation of the kernel `max_pool_with_argmax`."""


def describe_pooling(image_shape: Shape, window: Window) -> Array | None:
    """Return C's descriptor of a `Window` over images, or None if it would be empty or exceed 32 bits."""
    largest = max(
        count_elements(image_shape), image_shape[0] * image_shape[-1] * count_elements(window.out)
    )
    if 0 in (*image_shape, *window.out) or largest >= MAX_ELEMENTS:
        return None
    return describe_window(image_shape, window)


def describe_pooling_if_supported(
    functions: CFunctionsByDtype, images: Array, window: Window
) -> Array | None:
    """Return C's descriptor of a `Window` over images, or None if the C functions do not support them."""
    return describe_pooling(images.shape, window) if images.dtype in functions else None


def run_pooling(c_function: CFunction, x: Array, window: Window, descriptor: Array) -> Array:
    """Return the maxima or the averages of the windows over images, computed by a C function for C's descriptor."""
    out = empty((x.shape[0], *window.out, x.shape[-1]), x.dtype)
    run_windows(
        lambda some, x, out: (c_function, x, out, some),
        descriptor,
        [as_contiguous(x)],
        [out],
        work=out.size * count_elements(window.size),
    )
    return out


def make_pooling(kernel: Kernel[..., Any], functions: CFunctionsByDtype) -> Callable[..., Array]:
    """Return the implementation of a pooling kernel without dilations, by C functions by dtype."""
    in_python = numpy_implementation(kernel)

    def implementation(x: Array, *, window: Window) -> Array:
        """Return the maximum or the average of each window."""
        descriptor = describe_pooling_if_supported(functions, x, window)
        if descriptor is None:
            return in_python(x, window=window)
        return run_pooling(functions[x.dtype], x, window, descriptor)

    return implementation


def make_max_pool_gradient(kernel: Kernel[..., Any]) -> Callable[..., Array]:
    """Return the gradient of max pooling, which puts `dy` at the first maximum of each window."""
    numpy_gradient = numpy_implementation(kernel)

    def implementation(dy: Array, input: Array, output: Array, *, window: Window) -> Array:
        """Return the gradient for the images, given dy, the images, the maxima and the `Window`."""
        descriptor = describe_pooling_if_supported(C_MAX_POOL_GRADIENT, input, window)
        if descriptor is None:
            return numpy_gradient(dy, input, output, window=window)
        dx = empty(input.shape, input.dtype)
        run = C_MAX_POOL_GRADIENT[input.dtype]
        run_windows(
            lambda some, x, dx, dy, y: (run, dy, x, y, dx, some),
            descriptor,
            [as_contiguous(input), dx],
            [as_contiguous(dy), as_contiguous(output)],
            work=dy.size * count_elements(window.size),
            keeps_images_whole=True,
        )
        return dx

    return implementation


def make_avg_pool_gradient(kernel: Kernel[..., Any]) -> Callable[..., Array]:
    """Return the gradient of average pooling, which distributes `dy` evenly over each window."""
    numpy_gradient = numpy_implementation(kernel)

    def implementation(dy: Array, input: Array, *, window: Window) -> Array:
        """Return the gradient for the images, given dy, the images and the `Window`."""
        descriptor = describe_pooling_if_supported(C_AVERAGE_POOL_GRADIENT, input, window)
        if descriptor is None:
            return numpy_gradient(dy, input, window=window)
        dx = empty(input.shape, input.dtype)
        run = C_AVERAGE_POOL_GRADIENT[dy.dtype]
        run_windows(
            lambda some, dx, dy: (run, dy, dx, some),
            descriptor,
            [dx],
            [as_contiguous(dy)],
            work=dy.size * count_elements(window.size),
            keeps_images_whole=True,
        )
        return dx

    return implementation


@table.implements(pooling.max_pool_with_argmax)
def max_pool_with_argmax(
    x: Array, *, window: Window, include_batch_in_index: bool
) -> tuple[Array, Array]:
    """Return the maximum of each window and the index of its first cell; NaN counts as the maximum."""
    descriptor = describe_pooling_if_supported(C_MAX_POOL_WITH_ARGMAX, x, window)
    if descriptor is None:
        return numpy_max_pool_with_argmax(
            x, window=window, include_batch_in_index=include_batch_in_index
        )
    out = empty((x.shape[0], *window.out, x.shape[-1]), x.dtype)
    positions = empty(out.shape, INT32)
    offset = 0 if include_batch_in_index else -count_elements(x.shape[1:])
    C_MAX_POOL_WITH_ARGMAX[x.dtype](as_contiguous(x), out, descriptor, positions, offset)
    return out, positions


@table.implements(pooling.pool)
def pool(input: Array, *, window: Window, pooling_type: pooling.PoolingType) -> Array:
    """Return the maxima or the averages of dilated windows."""
    functions = C_MAX_POOL if pooling_type == "max" else C_AVERAGE_POOL
    descriptor = describe_pooling_if_supported(functions, input, window)
    if descriptor is None:
        return numpy_pool(input, window=window, pooling_type=pooling_type)
    return run_pooling(functions[input.dtype], input, window, descriptor)


table.update(
    {
        pooling.max_pool: make_pooling(pooling.max_pool, C_MAX_POOL),
        pooling.max_pool_gradient: make_max_pool_gradient(pooling.max_pool_gradient),
        pooling.avg_pool: make_pooling(pooling.avg_pool, C_AVERAGE_POOL),
        pooling.avg_pool_gradient: make_avg_pool_gradient(pooling.avg_pool_gradient),
    }
)
