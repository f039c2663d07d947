"""Random words and normal numbers from a key and a counter."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from plugrad.extend import count_elements
from plugrad.kernels import random
from plugrad_cpu.extend import empty, numpy_implementation, thread_pool
from plugrad_native.declare import (
    FLOAT32,
    INT32,
    MAX_ELEMENTS,
    as_contiguous,
    table,
)
from plugrad_native.variants import current_variant

if TYPE_CHECKING:
    import numpy as np

    from plugrad.extend import Implementation, Kernel, Shape
    from plugrad_native.declare import Array, CFunction

RANDOM_NUMBER_COST_IN_ADDITIONS: Final = 4
"""How long a number takes, in additions."""
PART_MULTIPLE_NUMBERS: Final = 1024
"""The numbers of which each part but the last has a multiple: whole blocks of words."""
PHILOX_BLOCK_WORDS: Final = 4


def make_random_kernel(
    kernel: Kernel[..., Any], name: str, dtype: np.dtype[np.generic]
) -> Implementation:
    """Return the implementation of a kernel whose C function makes a number of each word of Philox."""
    run: CFunction = current_variant().kernel(name)
    numpy_function = numpy_implementation(kernel)

    def implementation(state: Array, *, shape: Shape) -> Array:
        count = count_elements(shape)
        if count >= MAX_ELEMENTS:
            return numpy_function(state, shape=shape)
        state = as_contiguous(state)
        out = empty(shape, dtype)
        parts = thread_pool.count_parts(
            RANDOM_NUMBER_COST_IN_ADDITIONS * count, count // PART_MULTIPLE_NUMBERS
        )
        if parts < 2:
            run(state, out, count, 0)
            return out
        flat = out.reshape(-1)
        step = PART_MULTIPLE_NUMBERS
        bounds = [*(count * i // parts // step * step for i in range(parts)), count]
        thread_pool.run(
            [
                (run, state, flat[first:last], last - first, first // PHILOX_BLOCK_WORDS)
                for first, last in pairwise(bounds)
            ]
        )
        return out

    return implementation


table.update(
    {
        random.random_bits: make_random_kernel(random.random_bits, "random_bits", INT32),
        random.random_normal: make_random_kernel(
            random.random_normal, "random_normal_float32", FLOAT32
        ),
    }
)
