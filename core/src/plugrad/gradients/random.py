"""Gradients of the kernels that draw random numbers."""

from plugrad.gradient import not_differentiable
from plugrad.kernels import random

not_differentiable(random.multinomial, because="it draws class numbers, which are steps")
