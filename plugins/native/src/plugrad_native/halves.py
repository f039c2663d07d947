"""Kernels of halves: float16 computed in float32 where C has no half, and bfloat16 converted in registers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.extend import KERNELS, as_dtype, compute_in_float32, count_elements
from plugrad.kernels import (
    activation,
    binary,
    normalization,
    pooling,
    pooling3d,
    reduction,
    unary,
)
from plugrad_cpu.extend import are_results_tracked, empty, mark_results_tracked
from plugrad_native.declare import (
    BOOL,
    FLOAT16,
    FLOAT32_LANES,
    MAX_ELEMENTS,
    as_contiguous,
    make_binary_kernel,
    make_unary_kernel,
    parallel_for,
)
from plugrad_native.kernels import table as table
from plugrad_native.kernels.binary import COMPARISON_NAMES
from plugrad_native.kernels.pooling import describe_pooling, run_pooling
from plugrad_native.kernels.reduction import sum_halves
from plugrad_native.kernels.unary import DTYPE_CHARS, cast, step
from plugrad_native.variants import current_variant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from plugrad.extend import Implementation, Kernel, Shape, Window
    from plugrad_native.declare import Array, CFunction

FLOAT32_FAMILIES: Final = (
    *("attention", "convolution", "convolution3d", "depthwise", "fused", "normalization"),
    *("pooling", "pooling3d", "recurrent", "resize"),
)
"""Families whose kernels compute float16 in float32, as all families compute bfloat16."""


class Float32ImplementationForHalves:
    """An implementation for float32 that also accepts halves; it finds the C functions on the first call."""

    def __init__(self, kernel: Kernel[..., Any], function: Implementation) -> None:
        self._kernel = kernel
        self._function = function
        self._by_dtype: dict[str, Implementation] = {}

    def __call__(self, x: Array, *other_inputs: Array | None, **attributes: Any) -> Any:
        """Return the result in halves."""
        found = self._by_dtype.get(x.dtype.char)
        if found is None:
            halves = (as_dtype(x.dtype),)
            found = compute_in_float32(self._kernel, self._function, cast, halves)
            self._by_dtype[x.dtype.char] = found
        return found(x, *other_inputs, **attributes)


def dispatch_float16(
    other_implementation: Implementation, float16_implementation: Implementation
) -> Implementation:
    """Return an implementation that calls `float16_implementation` for float16, and the other one for all else."""

    def implementation(x: Array, *other_inputs: Array | None, **attributes: Any) -> Any:
        """Call one of the two implementations, depending on the dtype of x."""
        return (float16_implementation if x.dtype is FLOAT16 else other_implementation)(
            x, *other_inputs, **attributes
        )

    return (
        mark_results_tracked(implementation)
        if are_results_tracked(other_implementation)
        else implementation
    )


# --- norms of rows, and sums -------------------------------------------------------------------------


def _find_half_functions(name: str) -> dict[str, CFunction]:
    """Return the C functions of a kernel, given its name, by NumPy's letters for float16 and bfloat16."""
    return {
        DTYPE_CHARS[half]: current_variant().kernel(f"{name}_{half}")
        for half in ("float16", "bfloat16")
    }


C_LAYER_NORM_BY_DTYPE_CHAR: Final = _find_half_functions("layer_norm")
"""The C functions that standardize rows of halves, by NumPy's letters for the dtypes."""
C_SCALE_ROWS_BY_DTYPE_CHAR: Final = _find_half_functions("scale_rows")
"""The C functions that multiply rows of halves by factors and add offsets, by NumPy's letters for the dtypes."""


def _as_float32_offset_or_scale(offset_or_scale: Array | None, size: int, default: float) -> Array:
    """Return an offset or scale as `size` float32; a single number is repeated, and None becomes `default`."""
    if offset_or_scale is None:
        return np.full(size, default, np.float32)
    wide = offset_or_scale.reshape(-1).astype(np.float32)
    return wide if wide.size == size else np.full(size, wide[0], np.float32)


def make_layer_norm(fallback: Float32ImplementationForHalves) -> Implementation:
    """Return the implementation of layer norm for halves; `fallback` takes what C does not support."""

    def layer_norm(
        x: Array, offset: Array | None, scale: Array | None, *, axis: int, variance_epsilon: float
    ) -> Array:
        """Return the standardized rows of halves, times the scale plus the offset."""
        length = count_elements(x.shape[axis:])
        if not 0 < x.size < MAX_ELEMENTS:
            return fallback(x, offset, scale, axis=axis, variance_epsilon=variance_epsilon)
        out = empty(x.shape, x.dtype)
        parts = (
            _as_float32_offset_or_scale(offset, length, 0),
            _as_float32_offset_or_scale(scale, length, 1),
        )
        parallel_for(
            C_LAYER_NORM_BY_DTYPE_CHAR[x.dtype.char],
            ((as_contiguous(x), length), (parts[0], 0), (parts[1], 0), (out, length)),
            x.size // length,
            length,
            variance_epsilon,
            work=3 * x.size,
            scratch_floats=length,
        )
        return out

    return layer_norm


def make_batch_norm(fallback: Float32ImplementationForHalves) -> Implementation:
    """Return the implementation of batch norm for halves; `fallback` takes images whose channels are not last."""

    def batch_norm(x: Array, *channel_arrays: Array | None, variance_epsilon: float) -> Array:
        """Return standardized channels of halves; the channel arrays are mean, variance, offset and scale."""
        mean, variance, offset, scale = channel_arrays
        channels = x.shape[-1] if x.ndim else 0
        is_served = 0 < x.size < MAX_ELEMENTS and all(
            part is None
            or (part.size in (1, channels) and part.shape[-1:] in ((), (1,), (channels,)))
            for part in channel_arrays
        )
        if not is_served:
            return fallback(x, *channel_arrays, variance_epsilon=variance_epsilon)
        factor = 1 / np.sqrt(
            _as_float32_offset_or_scale(variance, channels, 1) + np.float32(variance_epsilon)
        )
        factor = factor * _as_float32_offset_or_scale(scale, channels, 1)
        out = empty(x.shape, x.dtype)
        given = (
            *((as_contiguous(x), channels), (_as_float32_offset_or_scale(mean, channels, 0), 0)),
            *(
                (as_contiguous(factor), 0),
                (_as_float32_offset_or_scale(offset, channels, 0), 0),
                (out, channels),
            ),
        )
        run = C_SCALE_ROWS_BY_DTYPE_CHAR[x.dtype.char]
        parallel_for(run, given, x.size // channels, channels, work=2 * x.size)
        return out

    return batch_norm


def make_sum(fallback: Float32ImplementationForHalves, *, is_mean: bool) -> Implementation:
    """Return the implementation of sums or means for bfloat16; float16 has its own in the module `reduction`."""

    def implementation(x: Array, *, axis: Shape, keep_dims: bool) -> Array:
        """Return the sums or the means along the axes."""
        if 0 < x.size < MAX_ELEMENTS:
            found = sum_halves(x, axis, keep_dims, is_mean=is_mean)
            if found is not None:
                return found
        return fallback(x, axis=axis, keep_dims=keep_dims)

    return implementation


# --- pooling -----------------------------------------------------------------------------------------


def make_pooling(c_name: str, fallback: Implementation) -> Implementation:
    """Return the implementation of a pooling of halves by C functions; `fallback` takes what they do not support."""
    functions = _find_half_functions(c_name)

    def implementation(x: Array, *, window: Window) -> Array:
        """Return the results of all windows over images of halves."""
        descriptor = describe_pooling(x.shape, window)
        if descriptor is None:
            return fallback(x, window=window)
        return run_pooling(functions[x.dtype.char], x, window, descriptor)

    return implementation


HALF_IMPLEMENTATION_MAKERS: Final = {
    pooling.avg_pool: partial(make_pooling, "avg_pool"),
    pooling.max_pool: partial(make_pooling, "max_pool"),
    pooling3d.avg_pool3d: partial(make_pooling, "avg_pool"),
    pooling3d.max_pool3d: partial(make_pooling, "max_pool"),
    normalization.layer_norm: make_layer_norm,
    normalization.batch_norm: make_batch_norm,
    reduction.mean: partial(make_sum, is_mean=True),
    reduction.sum: partial(make_sum, is_mean=False),
}
"""By kernel: the function that makes its implementation for halves, which converts few elements at a time."""
BFLOAT16_PRODUCTS_MIN_LANES: Final = 16
"""The minimum number of float32 in a vector register for which the extension has C products of bfloat16."""


def find_bfloat16_implementation_makers() -> Mapping[
    Kernel[..., Any], Callable[[Implementation], Implementation]
]:
    """Return by kernel the function that makes its bfloat16 implementation; empty if vectors are too short."""
    if FLOAT32_LANES < BFLOAT16_PRODUCTS_MIN_LANES:
        return {}
    from plugrad_native.half_products import BFLOAT16_IMPLEMENTATION_MAKERS

    return BFLOAT16_IMPLEMENTATION_MAKERS


def _set_half_implementations() -> None:
    """Add implementations for halves to the kernels in the table."""
    bfloat16_makers = find_bfloat16_implementation_makers()
    for config in list(table):
        kernel = KERNELS[config.kernel_name]
        make, make_bfloat16 = HALF_IMPLEMENTATION_MAKERS.get(kernel), bfloat16_makers.get(kernel)
        is_widened = kernel.family in FLOAT32_FAMILIES
        if not (make or make_bfloat16 or (is_widened and config.dtypes is None)):
            continue
        halves: Implementation = Float32ImplementationForHalves(kernel, config.kernel_func)
        if make_bfloat16 is not None:
            config = config._replace(bfloat16_func=make_bfloat16(halves))
        elif make is not None:
            halves = make(halves)
            config = config._replace(bfloat16_func=halves)
        if is_widened:
            config = config._replace(kernel_func=dispatch_float16(config.kernel_func, halves))
        table.replace(config)


_set_half_implementations()


# --- elementwise -----------------------------------------------------------------------------------


class _SameFunctionForAllDtypes:
    """A mapping from every dtype to the same C function, because NumPy's bfloat16 may not exist yet."""

    def __init__(self, run: CFunction) -> None:
        self._run = run

    def get(self, dtype: object) -> CFunction:
        """Return the one C function."""
        return self._run

    def __getitem__(self, dtype: object) -> CFunction:
        return self._run


UNARY_KERNEL_NAMES: Final = {
    unary: (
        *("ceil", "erf", "exp", "expm1", "floor", "log", "log1p", "negative", "reciprocal"),
        *("round", "rsqrt", "sign", "sqrt", "square", "tanh", "trunc"),
    ),
    activation: (
        "elu",
        "gelu",
        "gelu_tanh",
        "relu",
        "relu6",
        "selu",
        "sigmoid",
        "silu",
        "softplus",
    ),
}
"""The kernels of one tensor that have C functions for bfloat16, by family."""
BINARY_KERNEL_NAMES: Final = {
    binary: (
        *("add", "divide", "floor_divide", "hypot", "log_add_exp", "maximum", "minimum"),
        *("multiply", "remainder", "squared_difference", "subtract"),
    ),
    activation: (
        *("elu_gradient", "gelu_gradient", "gelu_tanh_gradient", "prelu", "relu6_gradient"),
        *("sigmoid_gradient", "silu_gradient"),
    ),
}
"""The kernels of two tensors that have C functions for bfloat16, by family."""


def _find_bfloat16_function(name: str, suffix: str = "") -> Any:
    """Return the C function of a kernel, given its name, for bfloat16, as a mapping that has it for every dtype."""
    return _SameFunctionForAllDtypes(current_variant().kernel(f"{name}_bfloat16{suffix}"))


def _set_bfloat16_implementation(kernel: Kernel[..., Any], function: Implementation) -> None:
    """Set the bfloat16 implementation of a kernel in the table to `function`."""
    config = next(c for c in table if c.kernel_name == kernel.name)
    table.replace(config._replace(bfloat16_func=function))


def _set_elementwise_bfloat16_implementations() -> None:
    """Add implementations for bfloat16 to the elementwise kernels that have C functions for it."""
    _set_bfloat16_implementation(unary.step, step)
    for family, names in UNARY_KERNEL_NAMES.items():
        for name in names:
            kernel = vars(family)[name]
            function = make_unary_kernel(kernel, _find_bfloat16_function(name))
            _set_bfloat16_implementation(kernel, function)
    for family, names in (*BINARY_KERNEL_NAMES.items(), (binary, COMPARISON_NAMES)):
        for name in names:
            kernel = vars(family)[name]
            function = make_binary_kernel(
                kernel,
                _find_bfloat16_function(name),
                _find_bfloat16_function(name, "_broadcast"),
                BOOL if name in COMPARISON_NAMES else None,
            )
            _set_bfloat16_implementation(kernel, function)


_set_elementwise_bfloat16_implementations()
