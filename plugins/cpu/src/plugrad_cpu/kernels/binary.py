"""Binary kernels; NumPy broadcasts their operands."""

from collections.abc import Callable
from typing import Final

import numpy as np

from plugrad.kernels import binary
from plugrad_cpu.declare import Array, table
from plugrad_cpu.memory import empty


def squared_difference(a: Array, b: Array, out: Array | None = None) -> Array:
    """Return (a - b)^2."""
    return np.square(np.subtract(a, b, out=out), out=out)


def floor_divide(a: Array, b: Array, out: Array | None = None) -> Array:
    """Return the quotient rounded towards minus infinity; an integer divided by 0 is 0."""
    return np.floor_divide(a, b, out=out)


POWERS: Final[dict[float, Callable[[Array], Array]]] = {
    2: np.square,
    3: lambda a: a * a * a,
    4: lambda a: np.square(np.square(a)),
}
"""The common exponents: a few products take a hundredth of the time of `np.power` with a negative base."""


def power(a: Array, b: Array) -> Array:
    """Return a to the power of b; with a negative exponent, an integer other than 1 and -1 gives 0."""
    if (
        b.size == 1
        and a.ndim >= b.ndim
        and a.dtype.kind == "f"
        and (product := POWERS.get(b.item()))
    ):
        return product(a)
    if a.dtype.kind == "i" and np.any(b < 0):
        inverse = np.where(np.abs(a) == 1, np.where(b & 1, a, 1), 0)
        return np.where(b < 0, inverse, np.power(a, np.maximum(b, 0))).astype(a.dtype, copy=False)
    return np.power(a, b)


BRANCHED: Final = 4096
"""Up to this size `np.where` is faster; the processor cannot predict the branches of larger ones."""


def select(condition: Array, t: Array, e: Array) -> Array:
    """Return t where the condition holds, else e.

    Without branches: where the condition holds, e is changed in the bits in which t differs from it.
    """
    if condition.size <= BRANCHED or t.dtype.hasobject or t.itemsize > 8:
        return np.where(condition, t, e)
    bits = f"u{t.itemsize}"
    kept = e.view(bits)
    difference = t.view(bits) ^ kept
    y = empty(np.broadcast_shapes(condition.shape, difference.shape), kept.dtype)
    np.multiply(difference, condition, out=y)
    return np.bitwise_xor(y, kept, out=y).view(t.dtype)


table.update(
    {
        binary.add: np.add,
        binary.subtract: np.subtract,
        binary.multiply: np.multiply,
        binary.divide: np.divide,
        binary.floor_divide: floor_divide,
        binary.remainder: np.remainder,
        binary.power: power,
        binary.squared_difference: squared_difference,
        binary.maximum: np.maximum,
        binary.minimum: np.minimum,
        binary.atan2: np.arctan2,
        binary.hypot: np.hypot,
        binary.log_add_exp: np.logaddexp,
        binary.next_after: np.nextafter,
        binary.equal: np.equal,
        binary.not_equal: np.not_equal,
        binary.greater: np.greater,
        binary.greater_equal: np.greater_equal,
        binary.less: np.less,
        binary.less_equal: np.less_equal,
        binary.logical_and: np.logical_and,
        binary.logical_or: np.logical_or,
        binary.logical_xor: np.logical_xor,
        binary.select: select,
    }
)


@table.implements(binary.add_n)
def add_n(*inputs: Array) -> Array:
    """Return the sum of all inputs."""
    total = inputs[0]
    for x in inputs[1:]:
        total = total + x
    return total
