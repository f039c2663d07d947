"""Binary kernels; PyTorch broadcasts their operands."""

import torch

from plugrad.kernels import binary
from plugrad_torch.declare import Array, implements, update

update(
    {
        binary.add: torch.add,
        binary.subtract: torch.sub,
        binary.multiply: torch.mul,
        binary.divide: torch.div,
        binary.maximum: torch.maximum,
        binary.minimum: torch.minimum,
        binary.atan2: torch.atan2,
        binary.hypot: torch.hypot,
        binary.log_add_exp: torch.logaddexp,
        binary.next_after: torch.nextafter,
        binary.equal: torch.eq,
        binary.not_equal: torch.ne,
        binary.greater: torch.gt,
        binary.greater_equal: torch.ge,
        binary.less: torch.lt,
        binary.less_equal: torch.le,
        binary.logical_and: torch.logical_and,
        binary.logical_or: torch.logical_or,
        binary.logical_xor: torch.logical_xor,
        binary.select: torch.where,
    }
)


@implements(binary.floor_divide)
def floor_divide(a: Array, b: Array) -> Array:
    """Return the quotient, rounded down; an integer divided by 0 is 0."""
    if a.is_floating_point():
        return torch.div(a, b, rounding_mode="floor")
    return torch.where(b == 0, 0, torch.div(a, torch.where(b == 0, 1, b), rounding_mode="floor"))


@implements(binary.remainder)
def remainder(a: Array, b: Array) -> Array:
    """Return the remainder of floor division, with the sign of b; 0 for an integer divided by 0."""
    if a.is_floating_point():
        y = torch.remainder(a, b)
        return torch.where(y == 0, torch.copysign(y, b), y)
    return torch.where(b == 0, 0, torch.remainder(a, torch.where(b == 0, 1, b)))


@implements(binary.power)
def power(a: Array, b: Array) -> Array:
    """Return a to the power of b; with a negative exponent, an integer other than 1 and -1 gives 0."""
    if a.is_floating_point() or a.is_complex():
        return torch.pow(a, b)
    inverse = torch.where(torch.abs(a) == 1, torch.where((b & 1) == 1, a, 1), 0)
    return torch.where(b < 0, inverse, torch.pow(a, torch.clamp(b, min=0))).to(a.dtype)
