"""Binary kernels; NumPy broadcasts their operands."""

import numpy as np

from plugrad.kernels import binary
from plugrad_cpu.declare import Array, table


def squared_difference(a: Array, b: Array) -> Array:
    """Return (a - b)^2."""
    difference = np.subtract(a, b)
    return np.multiply(difference, difference)


def floor_divide(a: Array, b: Array) -> Array:
    """Return the quotient rounded towards minus infinity; an integer divided by 0 is 0."""
    return np.floor_divide(a, b)


def power(a: Array, b: Array) -> Array:
    """Return a to the power of b; with a negative exponent, an integer other than 1 and -1 gives 0."""
    if a.dtype.kind == "i" and np.any(b < 0):
        inverse = np.where(np.abs(a) == 1, np.where(b & 1, a, 1), 0)
        return np.where(b < 0, inverse, np.power(a, np.maximum(b, 0))).astype(a.dtype, copy=False)
    return np.power(a, b)


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
        binary.select: lambda condition, t, e: np.where(condition, t, e),
    }
)


@table.implements(binary.add_n)
def add_n(*inputs: Array) -> Array:
    """Return the sum of all inputs."""
    total = inputs[0]
    for x in inputs[1:]:
        total = total + x
    return total
