"""Whole numbers have no gradients."""

from plugrad.gradient import not_differentiable
from plugrad.kernels import bitwise

not_differentiable(
    bitwise.bitwise_and,
    bitwise.bitwise_or,
    bitwise.bitwise_xor,
    bitwise.invert,
    bitwise.left_shift,
    bitwise.right_shift,
    because="whole numbers do not change smoothly",
)
