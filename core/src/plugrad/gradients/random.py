"""Gradients of the kernels that draw random numbers."""

from plugrad.kernels import random
from plugrad.tape.rules import gradient, not_differentiable

# Linear, and its own transpose. The words are drawn again: to keep what they choose would take memory until then.
gradient(
    random.dropout,
    x=lambda dy, state, rate, noise_shape: random.dropout(
        dy, state, rate=rate, noise_shape=noise_shape
    ),
)

not_differentiable(
    random.random_bits,
    random.random_normal,
    because="its only input is a key and a counter, which are integers",
)
not_differentiable(random.multinomial, because="it draws class numbers, which are integers")
