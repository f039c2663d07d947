"""Normalizations along an axis, of batches, and by neighbours."""

from __future__ import annotations

import math
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING

from plugrad.extend import ArgumentValueError, float32
from plugrad.kernels import normalization
from plugrad_webgpu.declare import table
from plugrad_webgpu.expressions import elementwise
from plugrad_webgpu.kernels.reduction import largest
from plugrad_webgpu.limits import MOST_LOOPS, REMEDY
from plugrad_webgpu.program import Program, plan
from plugrad_webgpu.reduce import reduction
from plugrad_webgpu.shaders import shader

if TYPE_CHECKING:
    from plugrad_webgpu.buffers import GpuArray
    from plugrad_webgpu.layout import Shape
    from plugrad_webgpu.program import Plan

PASSES = 2  # over a row: maximum and sum, result
LANES = 64  # invocations of a workgroup
FEW_ROWS = 16  # fewer rows, with one invocation each, do not keep a software device busy


_subtract = elementwise("a - b", ("a", "b"))
_exponential = elementwise("exp_accurate(x)")
_sum = reduction("a + b", {float32: 0})


class _Normalization:
    """One of the two kernels: its programs, and its steps for rows that are too long for one loop.

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
        step = self._plan(x.shape, axis, device.is_software)
        if step is not None:
            return device.launch(step, x)
        shifted = _subtract(x, largest(x, (axis,), True))
        return self._finish(shifted, self._total(_sum(_exponential(shifted), (axis,), True)))

    def _make_plan(self, shape: Shape, axis: int, is_software: bool) -> Plan | None:
        """Return the plan of the program; None if its loops would be too long, or too few."""
        size, inner = shape[axis], math.prod(shape[axis + 1 :])
        rows = math.prod(shape[:axis]) * inner
        width = 4 if inner == 1 and size % 4 == 0 else 1
        parameters = (rows, size // width, inner)
        if is_software:
            if size * PASSES > MOST_LOOPS or rows < FEW_ROWS < size:
                return None
            program, invocations = self._program("by_invocation", 8, width), rows
        else:
            if -(-size // LANES) * PASSES > MOST_LOOPS // 2:
                return None
            program, invocations = self._program("by_workgroup", LANES, width), rows * LANES
        return plan(program, parameters, invocations if size else 0, shape, float32)

    def _make_program(self, entry_point: str, workgroup: int, width: int) -> Program:
        wgsl = {
            name: each.replace("exp_accurate", "exponentials") for name, each in self._wgsl.items()
        }
        source = partial(shader, "normalization", **wgsl, **_WIDTHS[width])
        return Program(wgsl["finish"], source, entry_point=entry_point, workgroup=workgroup)


_WIDTHS = {
    1: {"element": "f32", "largest": "v", "exponentials": "exp_accurate(v)", "sum_of": "v"},
    4: {
        "element": "vec4f",
        "largest": "maximum(maximum(v.x, v.y), maximum(v.z, v.w))",
        "exponentials": f"vec4f({', '.join(f'exp_accurate(v.{lane})' for lane in 'xyzw')})",
        "sum_of": "(v.x + v.y) + (v.z + v.w)",
    },
}
_softmax = _Normalization("sum", "exp_accurate(shifted) / total")
_log_softmax = _Normalization("log_accurate(sum)", "shifted - total")


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
_factor = elementwise(
    "1.0 / sqrt(variance + parameters.epsilon)", ("variance",), attributes=("epsilon",)
)
_multiply = elementwise("a * b", ("a", "b"))
_scaled = elementwise("(x - mean) * factor", ("mean", "factor", "x"))
_scaled_and_moved = elementwise("(x - mean) * factor + offset", ("mean", "factor", "offset", "x"))


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
    """Return (x - mean) * factor + offset."""
    factor = _factor(variance, epsilon=variance_epsilon)
    if scale is not None:
        factor = _multiply(factor, scale)
    if offset is None:
        return _scaled(mean, factor, x)
    return _scaled_and_moved(mean, factor, offset, x)


# --- neighbours -------------------------------------------------------------------------------------


def _response(term: str, finish: str, *inputs: str) -> Program:
    """Return a program that computes `finish` from the sum of `term` over the neighbours k of each element i."""
    arrays = [f"var<storage, read> {name}: array<f32>;" for name in inputs]
    arrays.append("var<storage, read_write> output: array<f32>;")
    bindings = "\n".join(f"@group(0) @binding({i}) {array}" for i, array in enumerate(arrays))
    source = partial(shader, "normalization_response", term=term, finish=finish, bindings=bindings)
    return Program(finish, source)


_NORM = "(parameters.bias + parameters.alpha * sum)"
_SQUARES = "x[k] * x[k]"
_RESPONSE = _response(_SQUARES, f"x[i] * power({_NORM}, -parameters.beta)", "x")
_NORMS = _response(_SQUARES, _NORM, "x")
_RESPONSE_GRADIENT = _response(
    "dy[k] * y[k] / norms[k]",
    "dy[i] * power(norms[i], -parameters.beta) - 2.0 * parameters.alpha * parameters.beta * x[i] * sum",
    *("x", "y", "dy", "norms"),
)


@table.implements(normalization.local_response_normalization)
def local_response_normalization(
    x: GpuArray, *, depth_radius: int, bias: float, alpha: float, beta: float
) -> GpuArray:
    """Return x divided by a power of the sum of squares in its neighbourhood."""
    step = _response_plan(_RESPONSE, x.shape, depth_radius, bias, alpha, beta)
    return x.buffer.device.launch(step, x)


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
    device, how = x.buffer.device, (depth_radius, bias, alpha, beta)
    norms = device.launch(_response_plan(_NORMS, x.shape, *how), x)
    return device.launch(_response_plan(_RESPONSE_GRADIENT, x.shape, *how), x, y, dy, norms)


@lru_cache(maxsize=1024)
def _response_plan(
    program: Program, shape: Shape, depth_radius: int, bias: float, alpha: float, beta: float
) -> Plan:
    """Return the plan with an invocation for each element.

    Raises:
        ArgumentValueError: the neighbours are too many for the loops of a shader.
    """
    count, length = math.prod(shape), shape[-1]
    radius = min(depth_radius, length)
    steps = min(2 * radius + 1, length)
    if steps > MOST_LOOPS:
        raise ArgumentValueError(
            f"local_response_normalization on webgpu: depth_radius={depth_radius} on an axis of {length} elements "
            f"takes {steps} steps of a loop, more than the {MOST_LOOPS} of a shader; {REMEDY}"
        )
    parameters = (count, length, radius, float(bias), float(alpha), float(beta))
    return plan(program, parameters, count, shape, float32)
