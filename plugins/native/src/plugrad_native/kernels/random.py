"""Random words and normal numbers from a key and a counter, and dropout."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from plugrad.extend import count_elements
from plugrad.kernels import random
from plugrad.kernels.random import greatest_chosen_word
from plugrad_cpu.extend import drop_elements, empty, numpy_implementation, thread_pool
from plugrad_native.declare import (
    FLOAT32,
    FLOAT_DTYPES,
    INT32,
    MAX_ELEMENTS,
    as_contiguous,
    find_c_functions,
    table,
)
from plugrad_native.variants import current_variant

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from plugrad.extend import Implementation, Kernel, Shape
    from plugrad_cpu.extend import Call
    from plugrad_native.declare import Array, CFunction

RANDOM_NUMBER_COST_IN_ADDITIONS: Final = 4
"""The cost of a random number, in additions."""
PART_SIZE_MULTIPLE: Final = 1024
"""The number of random words of which each thread's part has a multiple: whole blocks of Philox."""
PHILOX_BLOCK_WORDS: Final = 4
"""The words of 32 bits that Philox makes from one counter."""


def make_random_kernel(
    kernel: Kernel[..., Any], c_name: str, result_dtype: np.dtype[np.generic]
) -> Implementation:
    """Return the implementation of a kernel whose C function makes one number of each Philox word."""
    run: CFunction = current_variant().kernel(c_name)
    numpy_function = numpy_implementation(kernel)

    def implementation(state: Array, *, shape: Shape) -> Array:
        """Return random numbers in an array of a shape, given a key and a counter as `state`."""
        count = count_elements(shape)
        if count >= MAX_ELEMENTS:
            return numpy_function(state, shape=shape)
        state = as_contiguous(state)
        out = empty(shape, result_dtype)
        draw_in_parts(run, state, (out,))
        return out

    return implementation


def draw_in_parts(
    c_function: CFunction, state: Array, arrays: Sequence[Array], *attributes: object
) -> None:
    """Call a C function that draws a random word for each element of arrays, from a key and a counter as `state`."""
    count = arrays[0].size
    parts = thread_pool.count_parts(
        RANDOM_NUMBER_COST_IN_ADDITIONS * count, count // PART_SIZE_MULTIPLE
    )
    if parts < 2:
        c_function(state, *arrays, count, 0, *attributes)
        return
    flat = [x.reshape(-1) for x in arrays]
    step = PART_SIZE_MULTIPLE
    bounds = [*(count * i // parts // step * step for i in range(parts)), count]
    calls: list[Call] = []
    for first, last in pairwise(bounds):
        some = [x[first:last] for x in flat]
        block = first // PHILOX_BLOCK_WORDS
        calls.append((c_function, state, *some, last - first, block, *attributes))
    thread_pool.run(calls)


C_DROPOUT: Final = find_c_functions("dropout", *FLOAT_DTYPES)
"""The C functions of dropout, by dtype."""
draw_bits: Final = make_random_kernel(random.random_bits, "random_bits", INT32)
"""The implementation of `random_bits`, which returns random words of 32 bits."""


@table.implements(random.dropout)
def dropout(x: Array, state: Array, *, rate: float, noise_shape: Shape) -> Array:
    """Return x / (1 - rate) where a word, from a key and a counter as `state`, is small enough, and 0 elsewhere."""
    run = C_DROPOUT.get(x.dtype)
    if run is None or noise_shape != x.shape or x.size >= MAX_ELEMENTS:
        return drop_elements(draw_bits, x, state, rate, noise_shape)
    out = empty(x.shape, x.dtype)
    arrays = as_contiguous(x), out
    draw_in_parts(run, as_contiguous(state), arrays, greatest_chosen_word(rate), 1 - rate)
    return out


table.update(
    {
        random.random_bits: draw_bits,
        random.random_normal: make_random_kernel(
            random.random_normal, "random_normal_float32", FLOAT32
        ),
    }
)
