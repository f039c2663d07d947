"""Bitwise kernels; shifts by as many places as there are bits, or more, are not left to the processor."""

import torch

from plugrad.kernels import bitwise
from plugrad_torch.declare import Array, implements, update

update(
    {
        bitwise.bitwise_and: torch.bitwise_and,
        bitwise.bitwise_or: torch.bitwise_or,
        bitwise.bitwise_xor: torch.bitwise_xor,
        bitwise.invert: torch.bitwise_not,
    }
)


@implements(bitwise.left_shift)
def left_shift(a: Array, b: Array) -> Array:
    """Return a shifted to the left; zeros come in."""
    bits = a.element_size() * 8
    return torch.where(b >= bits, 0, torch.bitwise_left_shift(a, torch.clamp(b, max=bits - 1)))


@implements(bitwise.right_shift)
def right_shift(a: Array, b: Array) -> Array:
    """Return a shifted to the right; copies of the sign come in."""
    last = a.element_size() * 8 - 1
    y = torch.bitwise_right_shift(a, torch.clamp(b, max=last))
    return torch.where(b > last, 0, y) if a.dtype is torch.uint8 else y
