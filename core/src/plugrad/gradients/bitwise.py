"""Whole numbers have no gradients."""

from plugrad.kernels import bitwise
from plugrad.tape.rules import not_differentiable

not_differentiable(
    bitwise.bitwise_and,
    bitwise.bitwise_or,
    bitwise.bitwise_xor,
    bitwise.invert,
    bitwise.left_shift,
    bitwise.right_shift,
    because="whole numbers do not change smoothly",
)
