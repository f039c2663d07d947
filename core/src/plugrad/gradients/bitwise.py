"""Gradients of the bitwise kernels: integers have none."""

from plugrad.kernels import bitwise
from plugrad.tape.rules import not_differentiable

not_differentiable(
    bitwise.bitwise_and,
    bitwise.bitwise_or,
    bitwise.bitwise_xor,
    bitwise.invert,
    bitwise.left_shift,
    bitwise.right_shift,
    because="integers do not change smoothly",
)
