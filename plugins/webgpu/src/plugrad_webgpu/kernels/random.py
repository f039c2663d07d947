"""Random numbers: words and normal numbers are made on the device, classes are drawn on the host."""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from plugrad.extend import float32, host_bodies, int32
from plugrad.kernels import random
from plugrad_webgpu.declare import table
from plugrad_webgpu.shaders.program import Program, plan
from plugrad_webgpu.shaders.sources import shader

if TYPE_CHECKING:
    from plugrad.extend import DType
    from plugrad_webgpu.memory.buffers import GpuArray
    from plugrad_webgpu.shaders.layout import Shape
    from plugrad_webgpu.shaders.program import Plan

BLOCK_WORDS: Final = 4
_BITS: Final = Program("random bits", partial(shader, "random", result="vec4u", made="words"))
_NORMAL: Final = Program(
    "random normal",
    partial(
        shader,
        "random",
        result="vec4f",
        made="vec4f(pair_of_words(words[0], words[1]), pair_of_words(words[2], words[3]))",
    ),
)


@lru_cache(maxsize=1024)
def _draw(program: Program, shape: Shape, dtype: DType) -> Plan:
    count = -(-math.prod(shape) // BLOCK_WORDS)
    return plan(program, (count, 0), count, shape, dtype)


@table.implements(random.random_bits)
def random_bits(state: GpuArray, *, shape: Shape) -> GpuArray:
    """Return the words of the blocks in order."""
    return state.buffer.device.launch(_draw(_BITS, shape, int32), state)


@table.implements(random.random_normal)
def random_normal(state: GpuArray, *, shape: Shape) -> GpuArray:
    """Return pairs of normal numbers."""
    return state.buffer.device.launch(_draw(_NORMAL, shape, float32), state)


table.update({random.multinomial: host_bodies(random)[random.multinomial]}, on_host=True)
