"""Random numbers: implementations of the core, which are written in NumPy, and dropout."""

from typing import Final

import numpy as np

from plugrad.extend import Implementation, Shape, host_implementations
from plugrad.kernels import random
from plugrad.kernels.random import greatest_chosen_word
from plugrad_cpu.declare import Array, table

numpy_implementations: Final = host_implementations(random)
"""The core's implementations of random kernels in NumPy, by kernel."""
table.update(numpy_implementations)


def drop_elements(
    draw_bits: Implementation, x: Array, state: Array, rate: float, noise_shape: Shape
) -> Array:
    """Return x / (1 - rate) where a random word, drawn from a key and a counter, is small enough, and 0 elsewhere."""
    is_chosen = draw_bits(state, shape=noise_shape) <= greatest_chosen_word(rate)
    return np.where(is_chosen, x / np.array(1 - rate, x.dtype), np.array(0, x.dtype))


@table.implements(random.dropout)
def dropout(x: Array, state: Array, *, rate: float, noise_shape: Shape) -> Array:
    """Return x / (1 - rate) where a word, from a key and a counter as `state`, is small enough, and 0 elsewhere."""
    return drop_elements(numpy_implementations[random.random_bits], x, state, rate, noise_shape)
