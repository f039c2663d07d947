"""Pooling over windows of images with up to three spatial axes; padding does not count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from plugrad.extend import size_of
from plugrad.kernels import pooling
from plugrad_cpu.extend import empty, numpy_implementation
from plugrad_native.declare import (
    FLOATS,
    INT32,
    INTEGERS,
    LIMIT,
    Array,
    dense,
    exports,
    table,
)
from plugrad_native.windows import descriptor_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.extend import Kernel, Window
    from plugrad_native.declare import Exports

MAX_POOL = exports("max_pool", *FLOATS, *INTEGERS)
MAX_POOL_GRADIENT = exports("max_pool_gradient", *FLOATS)
MAX_POOL_WITH_ARGMAX = exports("max_pool_with_argmax", *FLOATS, *INTEGERS)
AVERAGE_POOL = exports("avg_pool", *FLOATS)
AVERAGE_POOL_GRADIENT = exports("avg_pool_gradient", *FLOATS)

numpy_pool: Final = numpy_implementation(pooling.pool)
numpy_with_argmax: Final = numpy_implementation(pooling.max_pool_with_argmax)


def descriptor(functions: Exports, image: Array, window: Window) -> Array | None:
    """Return the descriptor of windows, or None if NumPy is to compute."""
    shape = image.shape
    largest = max(image.size, shape[0] * shape[-1] * size_of(window.out))
    if image.dtype not in functions or 0 in (*shape, *window.out) or largest >= LIMIT:
        return None
    return descriptor_of(shape, window)


def pooled(functions: Exports, x: Array, window: Window, described: Array) -> Array:
    """Return the largest elements or the averages of windows."""
    out = empty((x.shape[0], *window.out, x.shape[-1]), x.dtype)
    functions[x.dtype](dense(x), out, described)
    return out


def pool_of(kernel: Kernel[..., Any], functions: Exports) -> Callable[..., Array]:
    """Return the implementation of a pooling without dilations."""
    in_python = numpy_implementation(kernel)

    def implementation(x: Array, *, window: Window) -> Array:
        described = descriptor(functions, x, window)
        if described is None:
            return in_python(x, window=window)
        return pooled(functions, x, window, described)

    return implementation


def max_pool_gradient(kernel: Kernel[..., Any]) -> Callable[..., Array]:
    """Return the implementation that gives `dy` to the first largest element of each window."""
    numpy_gradient = numpy_implementation(kernel)

    def implementation(dy: Array, input: Array, output: Array, *, window: Window) -> Array:
        described = descriptor(MAX_POOL_GRADIENT, input, window)
        if described is None:
            return numpy_gradient(dy, input, output, window=window)
        dx = empty(input.shape, input.dtype)
        run = MAX_POOL_GRADIENT[input.dtype]
        run(dense(dy), dense(input), dense(output), dx, described)
        return dx

    return implementation


def avg_pool_gradient(kernel: Kernel[..., Any]) -> Callable[..., Array]:
    """Return the implementation that spreads `dy` evenly over each window."""
    numpy_gradient = numpy_implementation(kernel)

    def implementation(dy: Array, input: Array, *, window: Window) -> Array:
        described = descriptor(AVERAGE_POOL_GRADIENT, input, window)
        if described is None:
            return numpy_gradient(dy, input, window=window)
        dx = empty(input.shape, input.dtype)
        AVERAGE_POOL_GRADIENT[dy.dtype](dense(dy), dx, described)
        return dx

    return implementation


@table.implements(pooling.max_pool_with_argmax)
def max_pool_with_argmax(
    x: Array, *, window: Window, include_batch_in_index: bool
) -> tuple[Array, Array]:
    """Return the largest elements and the position of the first cell with each; NaN is the largest."""
    described = descriptor(MAX_POOL_WITH_ARGMAX, x, window)
    if described is None:
        return numpy_with_argmax(x, window=window, include_batch_in_index=include_batch_in_index)
    out = empty((x.shape[0], *window.out, x.shape[3]), x.dtype)
    positions = empty(out.shape, INT32)
    offset = 0 if include_batch_in_index else -size_of(x.shape[1:])
    MAX_POOL_WITH_ARGMAX[x.dtype](dense(x), out, described, positions, offset)
    return out, positions


@table.implements(pooling.pool)
def pool(input: Array, *, window: Window, pooling_type: pooling.PoolingType) -> Array:
    """Return the largest elements or the averages of windows of dilated cells."""
    functions = MAX_POOL if pooling_type == "max" else AVERAGE_POOL
    described = descriptor(functions, input, window)
    if described is None:
        return numpy_pool(input, window=window, pooling_type=pooling_type)
    return pooled(functions, input, window, described)


table.update(
    {
        pooling.max_pool: pool_of(pooling.max_pool, MAX_POOL),
        pooling.max_pool_gradient: max_pool_gradient(pooling.max_pool_gradient),
        pooling.avg_pool: pool_of(pooling.avg_pool, AVERAGE_POOL),
        pooling.avg_pool_gradient: avg_pool_gradient(pooling.avg_pool_gradient),
    }
)
