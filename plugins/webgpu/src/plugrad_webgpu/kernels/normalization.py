"""Normalizations along an axis, of batches, and by neighbours."""

from __future__ import annotations

import math
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Final

from plugrad.extend import Window, float32
from plugrad.kernels import normalization
from plugrad_webgpu.algorithms.expressions import elementwise
from plugrad_webgpu.algorithms.product import sum_over_axes
from plugrad_webgpu.algorithms.reduce import reduction
from plugrad_webgpu.algorithms.subgroups import (
    subgroup_size_substitutions,
    uses_subgroups,
    workgroup_reduction_function,
)
from plugrad_webgpu.declare import table
from plugrad_webgpu.driver.limits import MAX_LOOP_STEPS
from plugrad_webgpu.kernels.pooling import window_sums
from plugrad_webgpu.kernels.reduction import max_along
from plugrad_webgpu.memory.buffers import reinterpret
from plugrad_webgpu.shaders.chains import plain_store_substitutions
from plugrad_webgpu.shaders.program import Program, plan
from plugrad_webgpu.shaders.sources import shader

if TYPE_CHECKING:
    from plugrad_webgpu.memory.buffers import GpuArray
    from plugrad_webgpu.shaders.layout import Shape
    from plugrad_webgpu.shaders.program import Plan

PASSES_OVER_EACH_ROW = 2
"""The number of loops over a row: one for the maximum and the sum, one for the result."""
GPU_WORKGROUP_SIZE = 64
"""The number of invocations for each row on a GPU."""
SOFTWARE_MIN_ROWS = 16
"""The least number of rows, with one invocation each, that keep a software device busy."""


# A difference from -infinity would be NaN.
_subtraction_kernel = elementwise("a - maximum(b, -0x1.fffffep+127f)", ("a", "b"))
"""The elementwise kernel that subtracts the maximum of a row."""
_exponential_kernel = elementwise("exp_accurate(x)")
"""The elementwise kernel that computes exp(x)."""
_sum_over_axes = reduction("a + b", {float32: 0})
"""The function that sums an array over some of its axes."""


class _Normalization:
    """Softmax or log-softmax: its programs, and its stages for rows that are too long for one loop.

    Both kernels subtract its maximum from a row and sum the exponentials. They differ in the total
    that they compute from `sum`, and in the result.
    """

    def __init__(self, total: str, finish: str) -> None:
        self._wgsl = {"total": total, "finish": finish}
        self._total = elementwise(total, ("sum",))
        self._finish = elementwise(finish, ("shifted", "total"))
        self._program = cache(self._make_program)
        self._plan = lru_cache(maxsize=1024)(self._make_plan)

    def __call__(self, x: GpuArray, axis: int) -> GpuArray:
        """Return the normalized array."""
        device = x.buffer.device
        step = self._plan(x.shape, axis, device.is_software, uses_subgroups(device))
        if step is not None:
            return device.launch(step, x)
        shifted = _subtraction_kernel(x, max_along(x, (axis,), True))
        return self._finish(
            shifted, self._total(_sum_over_axes(_exponential_kernel(shifted), (axis,), True))
        )

    def _make_plan(
        self, shape: Shape, axis: int, is_software: bool, has_subgroups: bool
    ) -> Plan | None:
        """Return the plan of a normalization, or None if the rows are too long or too few for one dispatch."""
        size, inner = shape[axis], math.prod(shape[axis + 1 :])
        rows = math.prod(shape[:axis]) * inner
        width = 4 if inner == 1 and size % 4 == 0 else 1
        parameters = (rows, size // width, inner)
        if is_software:
            if size * PASSES_OVER_EACH_ROW > MAX_LOOP_STEPS or rows < SOFTWARE_MIN_ROWS < size:
                return None
            program, invocations = self._program("by_invocation", 8, width, False), rows
        else:
            if -(-size // GPU_WORKGROUP_SIZE) * PASSES_OVER_EACH_ROW > MAX_LOOP_STEPS // 2:
                return None
            program = self._program("by_workgroup", GPU_WORKGROUP_SIZE, width, has_subgroups)
            invocations = rows * GPU_WORKGROUP_SIZE
        return plan(program, parameters, invocations if size else 0, shape, float32)

    def _make_program(
        self, entry_point: str, workgroup_size: int, vector_width: int, has_subgroups: bool
    ) -> Program:
        """Return the program of softmax or log-softmax for rows of vectors."""
        wgsl = {
            name: each.replace("exp_accurate", "exponentials") for name, each in self._wgsl.items()
        }
        functions = (("highest_of_all", "maximum(a, b)"), ("sum_of_all", "a + b"))
        source = partial(
            shader,
            "normalization",
            **wgsl,
            **_SUBSTITUTIONS_BY_WIDTH[vector_width],
            **plain_store_substitutions(1, _SUBSTITUTIONS_BY_WIDTH[vector_width]["element"]),
            **subgroup_size_substitutions(has_subgroups),
            joined="".join(
                workgroup_reduction_function(*each, "f32", has_subgroups) for each in functions
            ),
        )
        return Program(
            wgsl["finish"],
            source,
            entry_point=entry_point,
            workgroup=workgroup_size,
            stored_elements=vector_width,
        )


_SUBSTITUTIONS_BY_WIDTH = {
    1: {"element": "f32", "integer": "i32", "largest": "v", "sum_of": "v"},
    4: {
        "element": "vec4f",
        "integer": "vec4i",
        "largest": "maximum(maximum(v.x, v.y), maximum(v.z, v.w))",
        "sum_of": "(v.x + v.y) + (v.z + v.w)",
    },
}
"""The template substitutions for vectors of one or of four elements."""
_softmax = _Normalization("sum", "exp_accurate(shifted) / total")
"""The softmax, a function of an array and an axis."""
softmax_or_zeros: Final = _Normalization(
    "select(sum, 1.0, sum == 0.0)", "exp_accurate(shifted) / total"
)  # 0 where all elements are -infinity
"""The softmax that is 0 in rows where all elements are -infinity."""
_log_softmax = _Normalization("log_accurate(sum)", "shifted - total")
"""The log-softmax, a function of an array and an axis."""


@table.implements(normalization.softmax)
def softmax(logits: GpuArray, *, dim: int) -> GpuArray:
    """Return exp(x) / sum(exp(x)) along an axis."""
    return _softmax(logits, dim)


@table.implements(normalization.log_softmax)
def log_softmax(logits: GpuArray, *, axis: int) -> GpuArray:
    """Return x - log(sum(exp(x))) along an axis."""
    return _log_softmax(logits, axis)


# --- batches ----------------------------------------------------------------------------------------

# The factor has the shape of the variance, so that roots and quotients are few.
_scale_factor_kernel = elementwise(
    "1.0 / sqrt(variance + parameters.epsilon)", ("variance",), attributes=("epsilon",)
)
"""The elementwise kernel that computes 1 / sqrt(variance + epsilon)."""
_multiplication_kernel = elementwise("a * b", ("a", "b"))
"""The elementwise kernel that multiplies two arrays."""
_addition_kernel = elementwise("a + b", ("a", "b"))
"""The elementwise kernel that adds two arrays."""
_center_and_scale_kernel = elementwise("(x - mean) * factor", ("mean", "factor", "x"))
"""The elementwise kernel that computes (x - mean) * factor."""
_center_scale_and_shift_kernel = elementwise(
    "(x - mean) * factor + offset", ("mean", "factor", "offset", "x")
)
"""The elementwise kernel that computes (x - mean) * factor + offset."""


@table.implements(normalization.batch_norm)
def batch_norm(
    x: GpuArray,
    mean: GpuArray,
    variance: GpuArray,
    offset: GpuArray | None,
    scale: GpuArray | None,
    *,
    variance_epsilon: float,
) -> GpuArray:
    """Return ``(x - mean) * factor + offset``, where the factor has the shape of the variance."""
    factor = _scale_factor_kernel(variance, epsilon=variance_epsilon)
    if scale is not None:
        factor = _multiplication_kernel(factor, scale)
    if offset is None:
        return _center_and_scale_kernel(mean, factor, x)
    return _center_scale_and_shift_kernel(mean, factor, offset, x)


# --- layers and batches in training -------------------------------------------------------------------

_mean_over_axes = reduction("a + b", {float32: 0}, finish="value / parameters.divisor")
"""The function that averages an array over some of its axes."""
_squared_deviation_kernel = elementwise("(x - mean) * (x - mean)", ("mean", "x"))
"""The elementwise kernel that computes (x - mean)^2."""
_multiply_dy_kernel = elementwise("dy * h", ("dy", "h"))
"""The elementwise kernel that multiplies the gradient `dy` by the standardized `h`."""
_center_and_scale_channels_kernel = elementwise("(x - mean) * factor", ("mean", "factor", "x"))
"""The elementwise kernel that computes (x - mean) * factor for the channels of a batch."""
_standardization_gradient_kernel = elementwise(
    "factor * (g - average - h * along)", ("factor", "average", "along", "h", "g")
)
"""The elementwise kernel that computes the gradient through a standardization."""
_divide_by_size_kernel = elementwise("x / parameters.size", attributes=("size",))
"""The elementwise kernel that divides by a number of elements."""


@cache
def _row_normalization_program(
    is_gradient: bool,
    input_names: tuple[str, ...],
    vector_width: int,
    entry_point: str,
    workgroup_size: int,
    has_subgroups: bool = False,
) -> Program:
    """Return the program that normalizes rows of x, or computes the gradient for x."""
    scale = " * scale[k]" if "scale" in input_names else ""
    element = _SUBSTITUTIONS_BY_WIDTH[vector_width]["element"]
    g = f"dy[at]{scale}" if is_gradient else f"{element}()"
    result = f"h{scale}" + (" + offset[k]" if "offset" in input_names else "")
    arrays = [f"var<storage, read> {name}: array<{element}>;" for name in input_names]
    source = partial(
        shader,
        "normalization_rows",
        element=element,
        sum_of=_SUBSTITUTIONS_BY_WIDTH[vector_width]["sum_of"],
        bindings="\n".join(f"@group(0) @binding({i}) {each}" for i, each in enumerate(arrays)),
        **plain_store_substitutions(len(input_names), element),
        g=g,
        result="found.y * (" + g + " - found.z - h * found.w)" if is_gradient else result,
        width=f"{vector_width}.0",
        turns="3" if is_gradient else "2",
        gradient_turns="1" if is_gradient else "0",
        joined=workgroup_reduction_function("sums_of_all", "a + b", "vec2f", has_subgroups),
        **subgroup_size_substitutions(has_subgroups),
    )
    label = "layer_norm_gradient" if is_gradient else "layer_norm"
    return Program(
        label,
        source,
        entry_point=entry_point,
        workgroup=workgroup_size,
        stored_elements=vector_width,
    )


@lru_cache(maxsize=1024)
def _row_normalization_plan(
    is_gradient: bool,
    input_names: tuple[str, ...],
    shape: Shape,
    axis: int,
    epsilon: float,
    is_software: bool,
    has_subgroups: bool,
) -> Plan | None:
    """Return the plan of a normalization, or None if the rows are too long or too few for one dispatch."""
    rows, size = math.prod(shape[:axis]), math.prod(shape[axis:])
    width = 4 if size % 4 == 0 else 1
    passes = 5  # over a row, with what its blocks add
    if is_software:
        if size * passes > MAX_LOOP_STEPS or rows < SOFTWARE_MIN_ROWS < size:
            return None
        program, invocations = (
            _row_normalization_program(is_gradient, input_names, width, "by_invocation", 8),
            rows,
        )
    else:
        if -(-size // GPU_WORKGROUP_SIZE) * passes > MAX_LOOP_STEPS // 2:
            return None
        program = _row_normalization_program(
            is_gradient, input_names, width, "by_workgroup", GPU_WORKGROUP_SIZE, has_subgroups
        )
        invocations = rows * GPU_WORKGROUP_SIZE
    parameters = rows, size, size // width, epsilon
    return plan(program, parameters, invocations if size else 0, shape, float32)


def _run_row_normalization(
    is_gradient: bool, axis: int, epsilon: float, **arrays: GpuArray | None
) -> GpuArray | None:
    """Return normalized rows or the gradient for x, or None if one dispatch cannot compute them."""
    given = {name: array for name, array in arrays.items() if array is not None}
    x = given["x"]
    device = x.buffer.device
    how = device.is_software, uses_subgroups(device)
    step = _row_normalization_plan(is_gradient, tuple(given), x.shape, axis, float(epsilon), *how)
    return None if step is None else device.launch(step, *given.values())


def _standardize(x: GpuArray, axes: tuple[int, ...], epsilon: float) -> tuple[GpuArray, GpuArray]:
    """Return x standardized over axes, and ``1 / sqrt(variance + epsilon)``."""
    mean = _mean_over_axes(x, axes, True)
    factor = _scale_factor_kernel(
        _mean_over_axes(_squared_deviation_kernel(mean, x), axes, True), epsilon=epsilon
    )
    return _center_and_scale_channels_kernel(mean, factor, x), factor


@table.implements(normalization.layer_norm)
def layer_norm(
    x: GpuArray,
    offset: GpuArray | None,
    scale: GpuArray | None,
    *,
    axis: int,
    variance_epsilon: float,
) -> GpuArray:
    """Return standardized rows times the scale plus the offset."""
    y = _run_row_normalization(False, axis, variance_epsilon, x=x, offset=offset, scale=scale)
    if y is not None:
        return y
    y, _ = _standardize(x, tuple(range(axis, len(x.shape))), variance_epsilon)
    y = y if scale is None else _multiplication_kernel(scale, y)
    return y if offset is None else _addition_kernel(offset, y)


@table.implements(normalization.layer_norm_gradient)
def layer_norm_gradient(
    dy: GpuArray, x: GpuArray, scale: GpuArray | None, *, axis: int, variance_epsilon: float
) -> list[GpuArray]:
    """Return the gradients for x, offset and scale."""
    before, axes = tuple(range(axis)), tuple(range(axis, len(x.shape)))
    dx = _run_row_normalization(True, axis, variance_epsilon, x=x, dy=dy, scale=scale)
    if dx is None:
        h, factor = _standardize(x, axes, variance_epsilon)
        g = dy if scale is None else _multiplication_kernel(scale, dy)
        dx = _standardization_gradient_kernel(
            factor,
            _mean_over_axes(g, axes, True),
            _mean_over_axes(_multiply_dy_kernel(g, h), axes, True),
            h,
            g,
        )
    else:
        h = layer_norm(x, None, None, axis=axis, variance_epsilon=variance_epsilon)
    return [
        dx,
        sum_over_axes(dy, before, False),
        sum_over_axes(_multiply_dy_kernel(dy, h), before, False),
    ]


@table.implements(normalization.batch_norm_training)
def batch_norm_training(
    x: GpuArray,
    offset: GpuArray | None,
    scale: GpuArray | None,
    *,
    axis: int,
    variance_epsilon: float,
) -> list[GpuArray]:
    """Return standardized channels times the scale plus the offset, with the means and the variances."""
    axes = tuple(i for i in range(len(x.shape)) if i != axis)
    mean = _mean_over_axes(x, axes, True)
    variance = _mean_over_axes(_squared_deviation_kernel(mean, x), axes, True)
    parts = [None if part is None else reinterpret(part, mean.shape) for part in (offset, scale)]
    y = batch_norm(x, mean, variance, *parts, variance_epsilon=variance_epsilon)
    return [y, *(reinterpret(part, (x.shape[axis],)) for part in (mean, variance))]


@table.implements(normalization.batch_norm_gradient)
def batch_norm_gradient(
    dy: GpuArray,
    x: GpuArray,
    mean: GpuArray,
    variance: GpuArray,
    scale: GpuArray | None,
    *,
    axis: int,
    variance_epsilon: float,
) -> list[GpuArray]:
    """Return the gradients for x, offset and scale."""
    axes = tuple(i for i in range(len(x.shape)) if i != axis)
    beside = tuple(n if i == axis else 1 for i, n in enumerate(x.shape))
    size = math.prod(x.shape[i] for i in axes)
    inverse = _scale_factor_kernel(reinterpret(variance, beside), epsilon=variance_epsilon)
    h = _center_and_scale_channels_kernel(reinterpret(mean, beside), inverse, x)
    sums = [sum_over_axes(dy, axes, True), sum_over_axes(_multiply_dy_kernel(dy, h), axes, True)]
    factor = (
        inverse if scale is None else _multiplication_kernel(inverse, reinterpret(scale, beside))
    )
    averages = [_divide_by_size_kernel(total, size=size) for total in sums]
    dx = _standardization_gradient_kernel(factor, *averages, h, dy)
    return [dx, *(reinterpret(total, (x.shape[axis],)) for total in sums)]


# --- neighbours -------------------------------------------------------------------------------------


_LRN_NORM_WGSL = "(parameters.bias + parameters.alpha * sum)"
"""The WGSL of the norm, which is raised to a power, from the sum of squares."""
_LRN_SQUARE_WGSL = "x[k] * x[k]"
"""The WGSL of the term that each neighbour adds to the sum of squares."""
_LRN_GRADIENT_TERM_WGSL = "dy[k] * y[k] / norms[k]"
"""The WGSL of the term that each neighbour adds to the gradient."""
_LRN_RESULT_WGSL = f"x[i] * power({_LRN_NORM_WGSL}, -parameters.beta)"
"""The WGSL of the normalized element."""
_LRN_GRADIENT_RESULT_WGSL = (
    "dy[i] * power(norms[i], -parameters.beta)"
    " - 2.0 * parameters.alpha * parameters.beta * x[i] * sum"
)
"""The WGSL of the gradient for an element."""


@table.implements(normalization.local_response_normalization)
def local_response_normalization(
    x: GpuArray, *, depth_radius: int, bias: float, alpha: float, beta: float
) -> GpuArray:
    """Return x divided by a power of the sum of squares over neighbouring channels."""
    how = depth_radius, float(bias), float(alpha), float(beta)
    return _map_with_neighbours(_LRN_SQUARE_WGSL, _LRN_RESULT_WGSL, how, {"x": x})


@table.implements(normalization.local_response_normalization_gradient)
def local_response_normalization_gradient(
    x: GpuArray,
    y: GpuArray,
    dy: GpuArray,
    *,
    depth_radius: int,
    bias: float,
    alpha: float,
    beta: float,
) -> GpuArray:
    """Return the gradient for x, which acts directly and as a neighbour of other elements."""
    how = depth_radius, float(bias), float(alpha), float(beta)
    norms = _map_with_neighbours(_LRN_SQUARE_WGSL, _LRN_NORM_WGSL, how, {"x": x})
    return _map_with_neighbours(
        _LRN_GRADIENT_TERM_WGSL,
        _LRN_GRADIENT_RESULT_WGSL,
        how,
        {"x": x, "y": y, "dy": dy, "norms": norms},
    )


def _map_with_neighbours(
    neighbour_expression: str,
    result_expression: str,
    radius_bias_alpha_beta: tuple[int, float, float, float],
    arrays_by_name: dict[str, GpuArray],
) -> GpuArray:
    """Return a WGSL expression of each element and of `sum`, to which each neighbouring channel adds another one."""
    x, (radius, *numbers) = arrays_by_name["x"], radius_bias_alpha_beta
    rows, length = math.prod(x.shape[:-1]), x.shape[-1]
    if min(2 * radius + 1, length) > MAX_LOOP_STEPS:  # a window of the terms, in several pieces
        radius = min(radius, length)
        terms = _run_lrn_program(neighbour_expression, "sum", (0, *numbers), arrays_by_name)
        window = Window(
            size=(2 * radius + 1,),
            strides=(1,),
            padding=((radius, radius),),
            dilations=(1,),
            out=(length,),
        )
        sums = window_sums(reinterpret(terms, (rows, length, 1)), window)
        neighbour_expression, arrays_by_name, radius = (
            "sums[k]",
            {**arrays_by_name, "sums": reinterpret(sums, x.shape)},
            0,
        )
    return _run_lrn_program(
        neighbour_expression, result_expression, (radius, *numbers), arrays_by_name
    )


def _run_lrn_program(
    neighbour_expression: str,
    result_expression: str,
    radius_bias_alpha_beta: tuple[float, ...],
    arrays_by_name: dict[str, GpuArray],
) -> GpuArray:
    """Return `result_expression` of each element and of the sum over neighbours that are few enough for one loop."""
    program = _lrn_program(neighbour_expression, result_expression, *arrays_by_name)
    step = _lrn_plan(program, arrays_by_name["x"].shape, *radius_bias_alpha_beta)
    return arrays_by_name["x"].buffer.device.launch(step, *arrays_by_name.values())


@cache
def _lrn_program(neighbour_expression: str, result_expression: str, *input_names: str) -> Program:
    """Return the program that sums an expression over neighbouring channels and computes a result from the sum."""
    bindings = [f"var<storage, read> {name}: array<f32>;" for name in input_names]
    lines = "\n".join(f"@group(0) @binding({i}) {line}" for i, line in enumerate(bindings))
    source = partial(
        shader,
        "normalization_response",
        term=neighbour_expression,
        finish=result_expression,
        bindings=lines,
        **plain_store_substitutions(len(input_names), "f32"),
    )
    return Program(result_expression, source, stored_elements=1)


@lru_cache(maxsize=1024)
def _lrn_plan(
    program: Program, shape: Shape, depth_radius: int, bias: float, alpha: float, beta: float
) -> Plan:
    """Return the plan of a program that sums over neighbouring channels."""
    count, length = math.prod(shape), shape[-1]
    parameters = (count, length, min(depth_radius, length), bias, alpha, beta)
    return plan(program, parameters, count, shape, float32)
