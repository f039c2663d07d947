"""Random words, normal numbers and classes, which the device makes of a key and a counter."""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from plugrad.extend import float32, int32
from plugrad.kernels import random
from plugrad_webgpu.algorithms.expressions import elementwise
from plugrad_webgpu.declare import table
from plugrad_webgpu.kernels.normalization import softmax
from plugrad_webgpu.kernels.scan import cumulative_sum
from plugrad_webgpu.kernels.unary import cast
from plugrad_webgpu.shaders.program import Program, plan
from plugrad_webgpu.shaders.sources import shader

if TYPE_CHECKING:
    from plugrad.extend import DType
    from plugrad_webgpu.memory.buffers import GpuArray
    from plugrad_webgpu.shaders.layout import Shape
    from plugrad_webgpu.shaders.program import Plan

PHILOX_BLOCK_WORDS: Final = 4
"""The number of 32-bit words in an output block of the generator Philox."""
_RANDOM_BITS_PROGRAM: Final = Program(
    "random bits", partial(shader, "random", result="vec4u", made="words")
)
"""The program that writes random words."""
_RANDOM_NORMAL_PROGRAM: Final = Program(
    "random normal",
    partial(
        shader,
        "random",
        result="vec4f",
        made="vec4f(pair_of_words(words[0], words[1]), pair_of_words(words[2], words[3]))",
    ),
)
"""The program that writes normally distributed numbers."""
_MULTINOMIAL_PROGRAM: Final = Program("random classes", partial(shader, "random_classes"))
"""The program that draws classes."""
_clip_negative_to_zero_kernel: Final = elementwise(
    "select(0.0, x, x > 0.0)"
)  # NaN does not affect other classes
"""The elementwise kernel that replaces negative numbers and NaN by 0."""


@lru_cache(maxsize=1024)
def _random_plan(program: Program, shape: Shape, dtype: DType) -> Plan:
    """Return the plan that runs a compiled program for random words or numbers of a shape."""
    count = -(-math.prod(shape) // PHILOX_BLOCK_WORDS)
    return plan(program, (count, 0), count, shape, dtype)


@lru_cache(maxsize=1024)
def _multinomial_plan(row_count: int, sample_count: int, class_count: int) -> Plan:
    """Return the plan of the program that draws classes."""
    count = row_count * sample_count
    return plan(
        _MULTINOMIAL_PROGRAM,
        (count, sample_count, class_count),
        count,
        (row_count, sample_count),
        int32,
    )


@table.implements(random.random_bits)
def random_bits(state: GpuArray, *, shape: Shape) -> GpuArray:
    """Return the 32-bit words of Philox's output blocks in order, for the key and counter in `state`."""
    return state.buffer.device.launch(_random_plan(_RANDOM_BITS_PROGRAM, shape, int32), state)


@table.implements(random.random_normal)
def random_normal(state: GpuArray, *, shape: Shape) -> GpuArray:
    """Return normally distributed random numbers, computed two at a time."""
    return state.buffer.device.launch(_random_plan(_RANDOM_NORMAL_PROGRAM, shape, float32), state)


@table.implements(random.multinomial)
def multinomial(
    logits: GpuArray, state: GpuArray, *, num_samples: int, normalized: bool
) -> GpuArray:
    """Return for each uniform number the class whose interval of cumulative probability contains it."""
    rows, classes = logits.shape
    weights = cast(logits, dtype=float32)
    weights = _clip_negative_to_zero_kernel(weights if normalized else softmax(weights, dim=1))
    sums = cumulative_sum(weights, axis=1, exclusive=False, reverse=False)
    words = random_bits(state, shape=(rows, num_samples))
    return logits.buffer.device.launch(_multinomial_plan(rows, num_samples, classes), sums, words)
