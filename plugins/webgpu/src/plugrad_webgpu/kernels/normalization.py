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
from plugrad_webgpu.limits import MOST_LOOPS
from plugrad_webgpu.program import Program, plan
from plugrad_webgpu.reduce import reduction
from plugrad_webgpu.shaders import shader

if TYPE_CHECKING:
    from plugrad_webgpu.buffers import GpuArray
    from plugrad_webgpu.layout import Shape
    from plugrad_webgpu.program import Plan

PASSES = 3  # over a row: maximum, sum, result
LANES = 64  # invocations of a workgroup
FEW_ROWS = 16  # fewer rows, with one invocation each, do not keep a software device busy


_subtract = elementwise("a - b", ("a", "b"))
_exponential = elementwise("exp_accurate(x)")
_sum = reduction("a + b", {float32: 0})


class _Normalization:
    """One of the two kernels: its programs, and its steps for rows that are too long for one loop.

    Both kernels subtract its maximum from a row and sum the exponentials. They differ in which of
    `shifted` and `exponential` they keep, in the total that they compute from `sum`, and in the
    last step.
    """

    def __init__(self, kept: str, total: str, finish: str) -> None:
        source = partial(shader, "normalization", kept=kept, total=total, finish=finish)
        self._by_invocation = Program(finish, source, entry_point="by_invocation", workgroup=8)
        self._by_workgroup = Program(finish, source, entry_point="by_workgroup", workgroup=LANES)
        self._keep = elementwise(kept, ("shifted", "exponential"))
        self._total = elementwise(total, ("sum",))
        self._finish = elementwise(finish, ("kept", "total"))
        self._plan = lru_cache(maxsize=1024)(self._make_plan)

    def __call__(self, x: GpuArray, axis: int) -> GpuArray:
        """Return the normalized array."""
        device = x.buffer.device
        step = self._plan(x.shape, axis, device.is_software)
        if step is not None:
            return device.launch(step, x)
        shifted = _subtract(x, largest(x, (axis,), True))
        exponential = _exponential(shifted)
        total = self._total(_sum(exponential, (axis,), True))
        return self._finish(self._keep(shifted, exponential), total)

    def _make_plan(self, shape: Shape, axis: int, is_software: bool) -> Plan | None:
        """Return the plan of the program; None if its loops would be too long, or too few."""
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


_softmax = _Normalization("exponential", "sum", "kept / total")
_log_softmax = _Normalization("shifted", "log_accurate(sum)", "kept - total")


@table.implements(normalization.softmax)
def softmax(logits: GpuArray, *, dim: int) -> GpuArray:
    """Return exp(x) / sum(exp(x)) along an axis."""
    return _softmax(logits, dim)


@table.implements(normalization.log_softmax)
def log_softmax(logits: GpuArray, *, axis: int) -> GpuArray:
    """Return x - log(sum(exp(x))) along an axis."""
    return _log_softmax(logits, axis)
