"""Gradients of the kernels that draw random numbers."""

from plugrad.kernels import random
from plugrad.tape.rules import not_differentiable

not_differentiable(random.multinomial, because="it draws class numbers, which are integers")
