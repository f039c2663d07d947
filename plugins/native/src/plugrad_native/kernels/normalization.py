"""Normalizations along an axis and of batches."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.extend import count_elements
from plugrad.kernels import normalization
from plugrad_cpu.extend import (
    PARTS_PER_THREAD,
    empty,
    mark_results_tracked,
    numpy_implementation,
    thread_pool,
    track_allocation,
)
from plugrad_native.declare import (
    CACHE_LINE_FLOATS,
    FLOAT16,
    FLOAT32,
    FLOAT32_LANES,
    FLOAT_DTYPES,
    MAX_ELEMENTS,
    UNTRACKED_MAX_ELEMENTS,
    as_contiguous,
    describe_broadcast,
    find_c_functions,
    parallel_for,
    parallel_strided_loop,
    register_small_result_functions,
    table,
)
from plugrad_native.kernels.scan import find_sizes_around_axis
from plugrad_native.kernels.unary import cast_to_float16, cast_to_float32
from plugrad_native.variants import current_variant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.extend import Kernel, Shape
    from plugrad_native.declare import Array, CFunction

EXP_COST_IN_ADDITIONS = 4
"""The cost of an exponential, in additions."""


def make_kernel_along_axis(
    kernel: Kernel[..., Any], c_name: str, axis_attribute: str
) -> Callable[..., Array]:
    """Return the implementation of a kernel along an axis by C functions whose names begin with `c_name`."""
    rows = find_c_functions(c_name, *FLOAT_DTYPES)
    columns, pitched = (
        current_variant().kernel(f"{c_name}_{lines}_float32") for lines in ("columns", "pitched")
    )
    numpy_function = numpy_implementation(kernel)

    def compute_along_axis(x: Array, axis: int) -> Array:
        """Return the result for a real array along an axis."""
        outer, length, inner = find_sizes_around_axis(x.shape, axis)
        if inner != 1 and (x.dtype != FLOAT32 or inner < FLOAT32_LANES):
            moved = compute_along_axis(np.moveaxis(x, axis, -1), x.ndim - 1)
            return as_contiguous(np.moveaxis(moved, -1, axis))
        out = empty(x.shape, x.dtype)
        places = (as_contiguous(x), length * inner), (out, length * inner)
        work = EXP_COST_IN_ADDITIONS * x.size
        if inner == 1:
            parallel_for(rows[x.dtype], places, outer, length, work=work)
        elif outer == 1:
            places = [(array, 1) for array, _ in places]
            sizes = length, inner
            parallel_for(
                pitched, places, inner, *sizes, work=work, part_size_multiple=CACHE_LINE_FLOATS
            )
        else:
            parallel_for(columns, places, outer, length, inner, work=work)
        return out

    def implementation(x: Array, axis: int) -> Array:
        """Return the result along an axis, or NumPy's where C has no function."""
        run = rows.get(x.dtype)
        size = x.size
        if run and 0 < size < UNTRACKED_MAX_ELEMENTS and axis == x.ndim - 1:
            length = x.shape[axis]
            out = np.empty(x.shape, x.dtype)
            run(as_contiguous(x), out, size // length, length)
            return out
        if run and 0 < size < MAX_ELEMENTS:
            return compute_along_axis(x, axis)
        if x.dtype == FLOAT16:
            return cast_to_float16(implementation(cast_to_float32(x), axis))
        return track_allocation(numpy_function(x, **{axis_attribute: axis}))

    return implementation


softmax_along_axis: Final = make_kernel_along_axis(normalization.softmax, "softmax", "dim")
"""The implementation of `softmax`, given an array and an axis."""
log_softmax_along_axis: Final = make_kernel_along_axis(
    normalization.log_softmax, "log_softmax", "axis"
)
"""The implementation of `log_softmax`, given an array and an axis."""


@table.implements(normalization.softmax)
@mark_results_tracked
def softmax(logits: Array, *, dim: int) -> Array:
    """Return ``exp(x) / sum(exp(x))`` along an axis."""
    return softmax_along_axis(logits, dim)


@table.implements(normalization.log_softmax)
@mark_results_tracked
def log_softmax(logits: Array, *, axis: int) -> Array:
    """Return ``x - log(sum(exp(x)))`` along an axis."""
    return log_softmax_along_axis(logits, axis)


for _kernel, _name, _axis in (
    (normalization.softmax, "softmax", "dim"),
    (normalization.log_softmax, "log_softmax", "axis"),
):
    register_small_result_functions(_kernel, "rows", find_c_functions(_name, *FLOAT_DTYPES), _axis)


C_BATCH_NORM = find_c_functions("batch_norm", *FLOAT_DTYPES)
"""The C functions of batch norm with given means and variances, by dtype."""

numpy_batch_norm: Final = numpy_implementation(normalization.batch_norm)
"""NumPy's implementation of the kernel `batch_norm`."""


@table.implements(normalization.batch_norm)
def batch_norm(
    x: Array,
    mean: Array,
    variance: Array,
    offset: Array | None,
    scale: Array | None,
    *,
    variance_epsilon: float,
) -> Array:
    """Return ``(x - mean) * factor + offset``, where the factor has the shape of the variance."""
    if x.dtype not in C_BATCH_NORM or not 0 < x.size < MAX_ELEMENTS:
        return numpy_batch_norm(x, mean, variance, offset, scale, variance_epsilon=variance_epsilon)
    factor = 1 / np.sqrt(variance + variance_epsilon)
    if scale is not None:
        factor = factor * scale
    shift = np.zeros((), x.dtype) if offset is None else offset
    parts = [as_contiguous(np.asarray(part, x.dtype)) for part in (mean, factor, shift)]
    out = empty(x.shape, x.dtype)
    descriptor = describe_broadcast(x.shape, *(part.shape for part in parts))
    places = (as_contiguous(x), 0), *zip(parts, (1, 2, 3), strict=True), (out, 0)
    parallel_strided_loop(C_BATCH_NORM[x.dtype], places, descriptor, work=2 * x.size)
    return out


C_LAYER_NORM = find_c_functions("layer_norm", *FLOAT_DTYPES)
"""The C functions of layer norm, by dtype."""
C_LAYER_NORM_GRADIENT = find_c_functions("layer_norm_gradient", *FLOAT_DTYPES)
"""The C functions of the gradient of layer norm with respect to its input, by dtype."""
C_LAYER_NORM_SUMS = find_c_functions("layer_norm_sums", *FLOAT_DTYPES)
"""The C functions that sum the gradients of layer norm for offset and scale, by dtype."""
C_BATCH_NORM_TRAINING = find_c_functions("batch_norm_training", *FLOAT_DTYPES)
"""The C functions of batch norm with the means and variances of the batch, by dtype."""
C_BATCH_NORM_GRADIENT = find_c_functions("batch_norm_gradient", *FLOAT_DTYPES)
"""The C functions of the gradient of batch norm in training, by dtype."""

numpy_layer_norm: Final = numpy_implementation(normalization.layer_norm)
"""NumPy's implementation of the kernel `layer_norm`."""
numpy_layer_norm_gradient: Final = numpy_implementation(normalization.layer_norm_gradient)
"""NumPy's implementation of the kernel `layer_norm_gradient`."""
numpy_batch_norm_training: Final = numpy_implementation(normalization.batch_norm_training)
"""NumPy's implementation of the kernel `batch_norm_training`."""
numpy_batch_norm_gradient: Final = numpy_implementation(normalization.batch_norm_gradient)
"""NumPy's implementation of the kernel `batch_norm_gradient`."""


def as_offset_or_scale(
    x: Array, offset_or_scale: Array | None, shape: Shape, default: float
) -> Array:
    """Return an offset or scale as a contiguous array in x's dtype; None becomes an array filled with `default`."""
    if offset_or_scale is None:
        return get_constant_array(shape, default, x.dtype)
    return as_contiguous(
        offset_or_scale
        if offset_or_scale.dtype is x.dtype
        else np.asarray(offset_or_scale, x.dtype)
    )


@lru_cache(maxsize=64)
def get_constant_array(shape: Shape, value: float, dtype: np.dtype[Any]) -> Array:
    """Return a cached array filled with one value, which must not be written to."""
    return np.full(shape, value, dtype)


@table.implements(normalization.layer_norm)
@mark_results_tracked
def layer_norm(
    x: Array, offset: Array | None, scale: Array | None, *, axis: int, variance_epsilon: float
) -> Array:
    """Return standardized rows times the scale plus the offset."""
    run = C_LAYER_NORM.get(x.dtype)
    size = x.size
    if run is None or not 0 < size < MAX_ELEMENTS:
        y = numpy_layer_norm(x, offset, scale, axis=axis, variance_epsilon=variance_epsilon)
        return track_allocation(y)
    row = x.shape[axis:]
    length = count_elements(row)
    parts = as_offset_or_scale(x, offset, row, 0), as_offset_or_scale(x, scale, row, 1)
    if size < UNTRACKED_MAX_ELEMENTS:
        out = np.empty(x.shape, x.dtype)
        run(as_contiguous(x), *parts, out, size // length, length, variance_epsilon)
        return out
    out = empty(x.shape, x.dtype)
    places = (as_contiguous(x), length), (parts[0], 0), (parts[1], 0), (out, length)
    parallel_for(run, places, size // length, length, variance_epsilon, work=3 * size)
    return out


@table.implements(normalization.layer_norm_gradient)
def layer_norm_gradient(
    dy: Array, x: Array, scale: Array | None, *, axis: int, variance_epsilon: float
) -> list[Array]:
    """Return the gradients for x (by rows), and for offset and scale (by columns)."""
    if x.dtype not in C_LAYER_NORM or not 0 < x.size < MAX_ELEMENTS:
        return numpy_layer_norm_gradient(dy, x, scale, axis=axis, variance_epsilon=variance_epsilon)
    row = x.shape[axis:]
    length = count_elements(row)
    count = x.size // length
    dy, x, factors = as_contiguous(dy), as_contiguous(x), as_offset_or_scale(x, scale, row, 1)
    dx, moments = empty(x.shape, x.dtype), empty((count, 2), x.dtype)
    places = (dy, length), (x, length), (factors, 0), (dx, length), (moments, 2)
    run = C_LAYER_NORM_GRADIENT[x.dtype]
    parallel_for(run, places, count, length, variance_epsilon, work=5 * x.size)
    sums = [empty(row, x.dtype) for _ in range(2)]
    columns = (dy, 1), (x, 1), (sums[0], 1), (sums[1], 1)
    parallel_for(
        C_LAYER_NORM_SUMS[x.dtype],
        columns,
        length,
        *(count, length, moments),
        work=2 * x.size,
        part_size_multiple=CACHE_LINE_FLOATS,
    )
    return [dx, *sums]


def find_channel_layout(x: Array, axis: int) -> tuple[int, int, int, int]:
    """Return four numbers: channels, blocks before them, elements per block, and elements per channel in a block."""
    channels, inner = x.shape[axis], count_elements(x.shape[axis + 1 :])
    return channels, x.size // (channels * inner), channels * inner, inner


ROWS_PER_PART: Final = 2048
"""The number of rows that are summed at a time, as in csrc/normalization.c."""
C_CHANNEL_SUMS: Final = find_c_functions("channel_sums", *FLOAT_DTYPES)
"""The C functions that sum parts of the rows by channel: x, or (x - mean)^2; by dtype."""
C_CHANNEL_GRADIENT_SUMS: Final = find_c_functions("channel_slopes", *FLOAT_DTYPES)
"""The C functions that sum parts of the rows by channel: dy, and dy (x - mean); by dtype."""
C_COMBINE_CHANNELS: Final = find_c_functions("combine_channels", *FLOAT_DTYPES)
"""The C functions that write dy a + (x - mean) b + c, with numbers a, b and c for each channel; by dtype."""


def run_for_channels(
    c_function: CFunction,
    arrays: Sequence[Array],
    channel_layout: tuple[int, int, int, int],
    epsilon: float,
) -> None:
    """Call a C function on images and arrays of a number per channel, for the counts of `find_channel_layout`."""
    channels, outer, pitch, inner = channel_layout
    places = [(x, inner if x.ndim > 1 else 1) for x in arrays]
    work = 3 * channels * outer * inner if inner > 1 else 0  # columns are not divided
    parallel_for(c_function, places, channels, outer, pitch, inner, epsilon, work=work)


def has_shared_rows(channel_layout: tuple[int, int, int, int]) -> bool:
    """Return whether each channel is one column, with enough rows to divide them among threads."""
    channels, outer, _, inner = channel_layout
    return (
        inner == 1 and thread_pool.count_parts(3 * channels * outer, -(-outer // ROWS_PER_PART)) > 1
    )


def sum_rows_by_parts(
    c_function: CFunction,
    inputs: Sequence[tuple[Array | None, bool]],
    rows: int,
    channels: int,
    sum_count: int,
) -> Array:
    """Return sums over all rows in double precision, which a C function computes for parts of fixed size.

    The function writes `sum_count` sums for each part. Each input is an array, and whether it has all rows of
    channels.
    """
    count = -(-rows // ROWS_PER_PART)
    totals = np.empty((count, sum_count))
    thread_pool.run_in_parts(
        c_function,
        (*(x for x, _ in inputs), totals, rows, channels),
        (*(ROWS_PER_PART * channels * is_long for _, is_long in inputs), sum_count, 0, 0),
        len(inputs) + 1,
        rows,
        parts=thread_pool.count_parts(2 * rows * channels, count, PARTS_PER_THREAD),
        part_size_multiple=ROWS_PER_PART,
    )
    # One after the other from 0 on, as C does; a sum along the axis would add pairs.
    return np.add.accumulate(totals)[-1] + 0.0


def normalize_rows_in_threads(
    x: Array, offset: Array, scale: Array, out: Array, epsilon: float
) -> tuple[Array, Array]:
    """Standardize columns as csrc/normalization.c does, with rows shared by threads; return means and variances."""
    channels = scale.size
    rows = x.size // channels
    run = C_CHANNEL_SUMS[x.dtype]
    with np.errstate(all="ignore"):
        totals = sum_rows_by_parts(run, ((x, True), (None, False)), rows, channels, channels)
        mean = (totals / rows).astype(x.dtype)
        squares = sum_rows_by_parts(run, ((x, True), (mean, False)), rows, channels, channels)
        variance = (squares / rows).astype(x.dtype)
        factor = scale / np.sqrt(variance + x.dtype.type(epsilon))
    shape = scale.shape
    descriptor = describe_broadcast((rows, channels), shape, shape, shape)
    places = (x, 0), (mean, 1), (factor, 2), (offset, 3), (out, 0)
    parallel_strided_loop(C_BATCH_NORM[x.dtype], places, descriptor, work=2 * x.size)
    return mean, variance


def differentiate_rows_in_threads(
    dy: Array, x: Array, moments: tuple[Array, Array], scale: Array, dx: Array, epsilon: float
) -> tuple[Array, Array]:
    """Write the gradient for x, with rows shared by threads; return the gradients for the offset and the scale."""
    channels, dtype = scale.size, x.dtype
    rows = x.size // channels
    mean, variance = moments
    inputs = (dy, True), (x, True), (mean, False)
    sums = sum_rows_by_parts(C_CHANNEL_GRADIENT_SUMS[dtype], inputs, rows, channels, 2 * channels)
    totals, along = sums[:channels], sums[channels:]
    with np.errstate(all="ignore"):
        inverse = 1 / np.sqrt(variance.astype(np.float64) + dtype.type(epsilon))
        a = inverse * scale
        b = -inverse * scale * inverse * inverse * along / rows
        c = -inverse * scale * totals / rows
        factors = [x.astype(dtype) for x in (a, b, c)]
        results = totals.astype(dtype), (inverse * along).astype(dtype)
    places = *((x, channels) for x in (dy, x)), *((x, 0) for x in (mean, *factors)), (dx, channels)
    parallel_for(C_COMBINE_CHANNELS[dtype], places, rows, channels, work=3 * x.size)
    return results


@table.implements(normalization.batch_norm_training)
def batch_norm_training(
    x: Array, offset: Array | None, scale: Array | None, *, axis: int, variance_epsilon: float
) -> list[Array]:
    """Return standardized channels times the scale plus the offset, with the means and the variances."""
    if x.dtype not in C_BATCH_NORM_TRAINING or not 0 < x.size < MAX_ELEMENTS:
        return numpy_batch_norm_training(
            x, offset, scale, axis=axis, variance_epsilon=variance_epsilon
        )
    sizes = find_channel_layout(x, axis)
    channels = sizes[:1]
    out, mean, variance = empty(x.shape, x.dtype), *(empty(channels, x.dtype) for _ in range(2))
    parts = as_offset_or_scale(x, offset, channels, 0), as_offset_or_scale(x, scale, channels, 1)
    if has_shared_rows(sizes):
        return [out, *normalize_rows_in_threads(as_contiguous(x), *parts, out, variance_epsilon)]
    arrays = as_contiguous(x), *parts, out, mean, variance
    run_for_channels(C_BATCH_NORM_TRAINING[x.dtype], arrays, sizes, variance_epsilon)
    return [out, mean, variance]


@table.implements(normalization.batch_norm_gradient)
def batch_norm_gradient(
    dy: Array,
    x: Array,
    mean: Array,
    variance: Array,
    scale: Array | None,
    *,
    axis: int,
    variance_epsilon: float,
) -> list[Array]:
    """Return the gradients for x, offset and scale, channel by channel."""
    if x.dtype not in C_BATCH_NORM_GRADIENT or not 0 < x.size < MAX_ELEMENTS:
        return numpy_batch_norm_gradient(
            dy, x, mean, variance, scale, axis=axis, variance_epsilon=variance_epsilon
        )
    sizes = find_channel_layout(x, axis)
    channels = sizes[:1]
    dx, *sums = empty(x.shape, x.dtype), *(empty(channels, x.dtype) for _ in range(2))
    parts = as_contiguous(mean), as_contiguous(variance), as_offset_or_scale(x, scale, channels, 1)
    dy, x = as_contiguous(dy), as_contiguous(x)
    if has_shared_rows(sizes):
        return [
            dx,
            *differentiate_rows_in_threads(dy, x, parts[:2], parts[2], dx, variance_epsilon),
        ]
    arrays = dy, x, *parts, dx, *sums
    run_for_channels(C_BATCH_NORM_GRADIENT[x.dtype], arrays, sizes, variance_epsilon)
    return [dx, *sums]
