"""Gradients of the kernels that draw random numbers."""

from plugrad.kernels import random
from plugrad.tape.rules import not_differentiable

not_differentiable(
    random.random_bits,
    random.random_normal,
    because="its only input is a key and a counter, which are integers",
)
not_differentiable(random.multinomial, because="it draws class numbers, which are integers")
