"""Binary kernels; NumPy broadcasts their operands."""

from collections.abc import Callable
from typing import Final

import numpy as np

from plugrad.extend import broadcast, count_elements
from plugrad.kernels import binary
from plugrad_cpu.declare import Array, table
from plugrad_cpu.memory import empty, empty_like


def squared_difference(a: Array, b: Array, out: Array | None = None) -> Array:
    """Return (a - b)^2."""
    return np.square(np.subtract(a, b, out=out), out=out)


def maximum(a: Array, b: Array, out: Array | None = None) -> Array:
    """Return the larger element, or NaN; of 0.0 and -0.0 the second operand, unlike NumPy also in float16."""
    return np.maximum(b, a, out=out) if a.dtype == np.float16 else np.maximum(a, b, out=out)


def minimum(a: Array, b: Array, out: Array | None = None) -> Array:
    """Return the smaller element, or NaN; the second one of two zeros, where NumPy gives the first one of float16."""
    return np.minimum(b, a, out=out) if a.dtype == np.float16 else np.minimum(a, b, out=out)


def compute_float32_in_blocks(
    formula: Callable[[Array, Array], Array], function: Callable[..., Array], dtype: type
) -> Callable[..., Array]:
    """Return an implementation that computes float32 in blocks by a formula, and all else by a NumPy function.

    The formula gets operands in `dtype`, and returns NaN where it does not hold; blocks with NaN are left to NumPy.
    """

    def compute(a: Array, b: Array, out: Array | None = None) -> Array:
        """Return the result for two arrays, written to `out` if it is given."""
        is_number = b.size == 1 and b.ndim <= a.ndim
        if (
            a.dtype != np.float32
            or a.size <= NUMPY_WHERE_MAX_ELEMENTS
            or not (is_number or b.shape == a.shape)
        ):
            return function(a, b, out=out)
        y = empty(a.shape, a.dtype) if out is None else out
        if not (a.flags.c_contiguous and y.flags.c_contiguous):
            return function(a, b, out=y)
        left, result = a.reshape(-1), y.reshape(-1)
        right = b.reshape(-1)
        for start in range(0, a.size, BLOCK_ELEMENTS):
            block = slice(start, start + BLOCK_ELEMENTS)
            x, z = left[block], right if is_number else right[block]
            part = formula(x.astype(dtype), z.astype(dtype))
            if np.isnan(part.min()):
                function(x, z, out=result[block])
            else:
                result[block] = part
        return y

    return compute


BLOCK_ELEMENTS: Final = 16_384
"""The number of elements that a formula computes at a time, so that intermediate results stay in the cache."""
MAX_EXACT_QUOTIENT: Final = 2.0**29
"""The largest quotient of float32 numbers whose whole part is exact in double precision, with 29 more bits."""


def _whole_quotient(a: Array, b: Array) -> Array:
    """Return the whole part of a / b, rounded down, or NaN if a quotient is too large to be exact."""
    q = a / b
    np.floor(q, out=q)
    if not np.abs(q).max() < MAX_EXACT_QUOTIENT:  # also if it is NaN
        q[:] = np.nan
    return q


def _remainder(a: Array, b: Array) -> Array:
    """Return the remainder of a / b with the sign of b, or NaN if a quotient is too large to be exact."""
    q = _whole_quotient(a, b)
    q *= b
    np.subtract(a, q, out=q)
    return np.copysign(q, b, out=q)


def _hypotenuse_or_nan(a: Array, b: Array) -> Array:
    """Return sqrt(a^2 + b^2), or NaN if the squares may be out of range."""
    a *= a
    b *= b
    a += b
    if not (a.min() > MIN_ACCURATE_SQUARE_SUM and a.max() < np.inf):  # also if one is NaN
        a[:] = np.nan
    return np.sqrt(a, out=a)


MIN_ACCURATE_SQUARE_SUM: Final = 2.0**-100
"""The minimum sum of squares that is accurate in float32, even if one of the squares is too small for the dtype."""


def log_add_exp(a: Array, b: Array) -> Array:
    """Return log(exp(a) + exp(b)) without overflow: the larger one, plus log(1 + exp(-|a - b|))."""
    if a.dtype.char not in "fd":
        return np.logaddexp(a, b)
    shape = broadcast(a.shape, b.shape)
    y, larger = empty(shape, a.dtype), empty(shape, a.dtype)
    np.maximum(a, b, out=larger)
    np.minimum(a, b, out=y)
    np.subtract(y, larger, out=y)
    y[np.isinf(larger)] = 0  # where inf - inf may be NaN
    np.log1p(np.exp(y, out=y), out=y)
    return np.add(y, larger, out=y)


POWER_FUNCTIONS_BY_EXPONENT: Final[dict[float, Callable[[Array, Array], Array]]] = {
    2: lambda a, y: np.square(a, out=y),
    3: lambda a, y: np.multiply(np.square(a, out=y), a, out=y),
    4: lambda a, y: np.square(np.square(a, out=y), out=y),
    -1: lambda a, y: np.reciprocal(a, out=y),
    0.5: lambda a, y: square_root_as_power(a, y),
    -0.5: lambda a, y: np.reciprocal(square_root_as_power(a, y), out=y),
}
"""By common exponent: a function that multiplies, in a hundredth of the time of `np.power`.

The functions take the base and where the result goes.
"""


def square_root_as_power(a: Array, out: Array) -> Array:
    """Write a to the power of 1/2 to `out`: infinity for -infinity and 0 for -0, unlike `np.sqrt`."""
    np.sqrt(a, out=out)
    np.add(out, 0, out=out)
    np.copyto(out, np.inf, where=a == -np.inf)
    return out


def power(a: Array, b: Array, out: Array | None = None) -> Array:
    """Return a to the power of b; with a negative exponent, an integer other than 1 and -1 gives 0."""
    if (
        b.size == 1
        and a.ndim >= b.ndim
        and a.dtype.kind == "f"
        and (function := POWER_FUNCTIONS_BY_EXPONENT.get(b.item()))
    ):
        return function(a, empty_like(a) if out is None else out)
    if a.dtype.kind == "i" and np.any(b < 0):
        inverse = np.where(np.abs(a) == 1, np.where(b & 1, a, 1), 0)
        y = np.where(b < 0, inverse, np.power(a, np.maximum(b, 0))).astype(a.dtype, copy=False)
        if out is None:
            return y
        out[...] = y
        return out
    return np.power(a, b, out=out)


NUMPY_WHERE_MAX_ELEMENTS: Final = 4096
"""The maximum elements for which `np.where` is faster; in larger arrays, branches are not predicted."""


SELECT_PART_MIN_ELEMENTS: Final = 2048
"""The minimum elements chosen by one bool for which a Python loop over slices is faster."""


def select(condition: Array, t: Array, e: Array) -> Array:
    """Return t where the condition holds, else e.

    Without branches: where the condition holds, e is changed in the bits in which t differs from it.
    """
    axes = condition_axes(condition, t, e)
    if axes is not None:
        y = empty(t.shape, t.dtype)
        for place in np.ndindex(t.shape[:axes]):
            y[place] = t[place] if condition[place].any() else e[place]
        return y
    if condition.size <= NUMPY_WHERE_MAX_ELEMENTS or t.dtype.hasobject or t.itemsize > 8:
        return np.where(condition, t, e)
    bits = f"u{t.itemsize}"
    others = e.view(bits)
    y = zero_where_false(t.view(bits) ^ others, condition)
    return np.bitwise_xor(y, others, out=y).view(t.dtype)


def condition_axes(condition: Array, t: Array, e: Array) -> int | None:
    """Return how many leading axes a condition varies along if it chooses long parts of t and e, else None."""
    shape = t.shape
    if (
        not 0 < condition.size * SELECT_PART_MIN_ELEMENTS <= t.size
        or e.shape != shape
        or condition.ndim != len(shape)
    ):
        return None
    axes = next((i for i, size in enumerate(condition.shape) if size == 1 != shape[i]), len(shape))
    is_leading = condition.size == count_elements(shape[:axes])
    return axes if is_leading else None


def zero_where_false(x: Array, condition: Array) -> Array:
    """Return x where the condition holds, else 0, without branches: the bits of x times 1 or 0."""
    bits = x.view(f"u{x.itemsize}")
    y = empty(broadcast(x.shape, condition.shape), bits.dtype)
    return np.multiply(bits, condition, out=y).view(x.dtype)


table.update(
    {
        binary.add: np.add,
        binary.subtract: np.subtract,
        binary.multiply: np.multiply,
        binary.divide: np.divide,
        binary.floor_divide: compute_float32_in_blocks(
            _whole_quotient, np.floor_divide, np.float64
        ),
        binary.remainder: compute_float32_in_blocks(_remainder, np.remainder, np.float64),
        binary.power: power,
        binary.squared_difference: squared_difference,
        binary.maximum: maximum,
        binary.minimum: minimum,
        binary.atan2: np.arctan2,
        binary.hypot: compute_float32_in_blocks(_hypotenuse_or_nan, np.hypot, np.float32),
        binary.log_add_exp: log_add_exp,
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
