"""Softmax and its logarithm."""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from plugrad.extend import float32
from plugrad.kernels import normalization
from plugrad_webgpu.declare import table
from plugrad_webgpu.expressions import elementwise
from plugrad_webgpu.kernels.reduction import largest
from plugrad_webgpu.program import MOST_LOOPS, Program, plan
from plugrad_webgpu.reduce import reduction
from plugrad_webgpu.shaders import shader

if TYPE_CHECKING:
    from plugrad_webgpu.buffers import GpuArray, Shape
    from plugrad_webgpu.program import Plan

PASSES = 3  # over a row: maximum, sum, result
LANES = 64  # invocations of a workgroup
FEW_ROWS = 16  # fewer do not keep a software device busy with one invocation each


class _Normalization:
    """One of the two kernels: its programs, and its steps for rows too long for one loop."""

    def __init__(self, expression: str) -> None:
        source = partial(shader, "normalization", expression=expression)
        self._by_invocation = Program(expression, source, entry_point="by_invocation", workgroup=8)
        self._by_workgroup = Program(
            expression, source, entry_point="by_workgroup", workgroup=LANES
        )
        self._shifted = elementwise("a - b", ("a", "b"))
        self._exponential = elementwise("exp_accurate(x)")
        self._finish = elementwise(expression, ("x", "sum"))
        self._sum = reduction("a + b", {float32: 0})
        self._plan = lru_cache(maxsize=1024)(self._make_plan)

    def __call__(self, x: GpuArray, axis: int) -> GpuArray:
        """Return the normalized array."""
        device = x.buffer.device
        step = self._plan(x.shape, axis, device.is_software)
        if step is not None:
            return device.launch(step, x)
        shifted = self._shifted(x, largest(x, (axis,), True))
        return self._finish(shifted, self._sum(self._exponential(shifted), (axis,), True))

    def _make_plan(self, shape: Shape, axis: int, is_software: bool) -> Plan | None:
        """Return the plan of the program; None when its loops would be too long or too few."""
        size, inner = shape[axis], math.prod(shape[axis + 1 :])
        rows = math.prod(shape[:axis]) * inner
        parameters = (rows, size, inner)
        if is_software:
            if size * PASSES > MOST_LOOPS or rows < FEW_ROWS < size:
                return None
            return plan(self._by_invocation, parameters, rows if size else 0, shape, float32)
        if -(-size // LANES) * PASSES > MOST_LOOPS // 2:
            return None
        return plan(self._by_workgroup, parameters, rows * LANES if size else 0, shape, float32)


_softmax = _Normalization("exp_accurate(x) / sum")
_log_softmax = _Normalization("x - log_accurate(sum)")


@table.implements(normalization.softmax)
def softmax(logits: GpuArray, *, dim: int) -> GpuArray:
    """Return exp(x) / sum(exp(x)) along an axis."""
    return _softmax(logits, dim)


@table.implements(normalization.log_softmax)
def log_softmax(logits: GpuArray, *, axis: int) -> GpuArray:
    """Return x - log(sum(exp(x))) along an axis."""
    return _log_softmax(logits, axis)
