"""Functions of two tensors, combined element by element.

Shapes are broadcast, dtypes promoted; a Python scalar takes the other operand's dtype if its kind
allows. The "common" shape and dtype of two operands are those. An argument that does not convert to
a tensor raises ArgumentError, and tensors on different backends raise BackendMismatch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, overload

from plugrad.contract.kernel import ValidatedAttributes
from plugrad.engine.results import alias
from plugrad.errors import ArgumentError, ArgumentValueError, DTypeError, ShapeError
from plugrad.kernels import binary, indexing, movement, unary
from plugrad.ops.arguments import (
    as_bools,
    as_supported_dtype,
    as_tensor,
    binary_op,
    common_dtype,
    host_array,
    promote_operands,
    promote_to_one_dtype,
    result_dtype,
)
from plugrad.ops.attributes import as_list
from plugrad.tensor.tensor import Tensor, TensorLike
from plugrad.types.dtype import BOOL, FLOATING, bool_, equivalents, promote

if TYPE_CHECKING:
    from collections.abc import Sequence


def add(a: TensorLike, b: TensorLike) -> Tensor:
    """The sum ``a + b``, in their common shape and dtype.

    >>> plugrad.add([1.0, 2.0], 10)
    tensor([11., 12.], dtype=float32)

    Raises:
        DTypeError: both operands hold bools, one holds strings, or no dtype holds both.
        ShapeError: the shapes do not broadcast.
    """
    return binary_op(binary.add, a, b, "add")


def subtract(a: TensorLike, b: TensorLike) -> Tensor:
    """The difference ``a - b``, in their common shape and dtype.

    >>> plugrad.subtract([1.0, 2.0], 10)
    tensor([-9., -8.], dtype=float32)

    Raises:
        DTypeError: both operands hold bools, one holds strings, or no dtype holds both.
        ShapeError: the shapes do not broadcast.
    """
    return binary_op(binary.subtract, a, b, "subtract")


def multiply(a: TensorLike, b: TensorLike) -> Tensor:
    """The product ``a * b``, in their common shape and dtype.

    >>> plugrad.multiply([1.0, 2.0], 10)
    tensor([10., 20.], dtype=float32)

    Raises:
        DTypeError: both operands hold bools, one holds strings, or no dtype holds both.
        ShapeError: the shapes do not broadcast.
    """
    return binary_op(binary.multiply, a, b, "multiply")


def divide(a: TensorLike, b: TensorLike) -> Tensor:
    """The quotient ``a / b``, in their common shape and dtype; integers and bools are divided as float32.

    >>> plugrad.divide([1.0, 2.0], 4)
    tensor([0.25, 0.5 ], dtype=float32)

    Raises:
        DTypeError: an operand holds strings, or no dtype holds both.
        ShapeError: the shapes do not broadcast.
    """
    return binary_op(binary.divide, a, b, "divide")


def floor_divide(a: TensorLike, b: TensorLike) -> Tensor:
    """The quotient rounded towards minus infinity, in their common shape and dtype.

    >>> plugrad.floor_divide([7, -7], 2)
    tensor([ 3, -4], dtype=int32)

    An integer divided by 0 is 0.

    Raises:
        DTypeError: both operands hold bools, one holds complex numbers or strings, or no dtype
            holds both.
        ShapeError: the shapes do not broadcast.
    """
    return binary_op(binary.floor_divide, a, b, "floor_divide")


def remainder(a: TensorLike, b: TensorLike) -> Tensor:
    """The remainder of `floor_divide`, in their common shape and dtype; it has the sign of b.

    >>> plugrad.remainder([7, -7], 3)
    tensor([1, 2], dtype=int32)

    An integer divided by 0 leaves 0, a float leaves NaN.

    Raises:
        DTypeError: both operands hold bools, one holds complex numbers or strings, or no dtype
            holds both.
        ShapeError: the shapes do not broadcast.
    """
    return binary_op(binary.remainder, a, b, "remainder")


def pow(a: TensorLike, b: TensorLike) -> Tensor:
    """The power ``a**b``, in their common shape and dtype.

    >>> plugrad.pow([2.0, 3.0], 2)
    tensor([4., 9.], dtype=float32)

    A negative power of an integer is rounded towards 0; that of the integer 0 is 0. A fractional
    power of a negative float is NaN.

    Raises:
        DTypeError: both operands hold bools, one holds strings, or no dtype holds both.
        ShapeError: the shapes do not broadcast.
    """
    if type(b) is int and b == 2 and type(a) is Tensor and a.array.dtype in _FLOATING_DTYPES:
        return unary.square.call(a)  # whose gradient takes two kernels instead of seven
    return binary_op(binary.power, a, b, "pow")


def squared_difference(a: TensorLike, b: TensorLike) -> Tensor:
    """The square ``(a - b)**2`` of the difference, in their common shape and dtype.

    >>> plugrad.squared_difference([1.0, 5.0], 3)
    tensor([4., 4.], dtype=float32)

    Raises:
        DTypeError: both operands hold bools, one holds strings, or no dtype holds both.
        ShapeError: the shapes do not broadcast.
    """
    return binary_op(binary.squared_difference, a, b, "squared_difference")


def maximum(a: TensorLike, b: TensorLike) -> Tensor:
    """The larger of a and b, in their common shape and dtype; NaN if one is NaN.

    >>> plugrad.maximum([1.0, 5.0], 3)
    tensor([3., 5.], dtype=float32)

    The gradient goes to a where both are equal.

    Raises:
        DTypeError: both operands hold bools, one holds complex numbers or strings, or no dtype
            holds both.
        ShapeError: the shapes do not broadcast.
    """
    return binary_op(binary.maximum, a, b, "maximum")


def minimum(a: TensorLike, b: TensorLike) -> Tensor:
    """The smaller of a and b, in their common shape and dtype; NaN if one is NaN.

    >>> plugrad.minimum([1.0, 5.0], 3)
    tensor([1., 3.], dtype=float32)

    The gradient goes to a where both are equal.

    Raises:
        DTypeError: both operands hold bools, one holds complex numbers or strings, or no dtype
            holds both.
        ShapeError: the shapes do not broadcast.
    """
    return binary_op(binary.minimum, a, b, "minimum")


def clip(x: TensorLike, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """Each element limited to the range from `min` to `max`, where these are given; NaN stays NaN.

    >>> plugrad.clip([-1.0, 0.5, 2.0], 0, 1)
    tensor([0. , 0.5, 1. ], dtype=float32)
    >>> plugrad.clip([-1.0, 0.5, 2.0], max=[0.0, 1.0, 1.0])
    tensor([-1. ,  0.5,  1. ], dtype=float32)

    The result has the dtype of x, and the shape to which x and the bounds broadcast. Where bounds
    that are tensors cross, the result is `max`.

    Args:
        x: the elements.
        min: the lower bound, a number or a tensor; None means no bound.
        max: the upper bound, likewise.

    Raises:
        ArgumentValueError: the number `min` is greater than the number `max`, or a number does not
            fit the dtype of x.
        DTypeError: x holds bools, complex numbers or strings, or a bound would promote x to another
            dtype.
        ShapeError: the shapes do not broadcast.
    """
    x = as_supported_dtype(x, unary.clip_by_value, "clip")
    if (
        type(min) is float
        and type(max) is float
        and -_MAX_UNCHECKED_BOUND < min <= max < _MAX_UNCHECKED_BOUND
        and x.array.dtype is unary.clip_by_value.fast_dtype
    ):  # what programs mostly do needs no further check
        return unary.clip_by_value.call(
            x, ValidatedAttributes(clip_value_min=min, clip_value_max=max)
        )
    low = _as_bound(min, "min", x)
    high = _as_bound(max, "max", x)
    if isinstance(low, bool | int | float) and isinstance(high, bool | int | float):
        if low > high:
            raise ArgumentValueError(f"clip: min={low} is greater than max={high}; swap them")
        return unary.clip_by_value(x, clip_value_min=low, clip_value_max=high)
    y = alias(x) if low is None else maximum(x, low)
    return y if high is None else minimum(y, high)


_MAX_UNCHECKED_BOUND: Final = 2.0**63
"""Smaller bounds of `clip` fit every floating dtype except float16, and need no check."""


def _as_bound(bound: TensorLike | None, name: str, x: Tensor) -> Tensor | bool | int | float | None:
    """Return a bound of `clip` as a Python number or a tensor.

    Raises:
        ArgumentValueError: a number does not fit the dtype of x.
        DTypeError: the bound would promote x to another dtype.
    """
    if bound is None:
        return None
    if isinstance(bound, bool | int | float):
        met = result_dtype(unary.clip_by_value, x.dtype, bound, "clip")
        if met is x.dtype and met.kind == "floating" and abs(bound) >= _MAX_UNCHECKED_BOUND:
            host_array(bound, "clip", name, met)  # raises if it does not fit
    else:
        bound = as_tensor(bound, "clip", name, backend=x.backend)
        met = common_dtype(promote, x.dtype, bound.dtype, f"clip ({name})")
    if met is not x.dtype:
        raise DTypeError(
            f"clip: x is {x.dtype}, but {name} would promote it to {met}; cast one of them, as in "
            f"x.astype({str(met)!r})"
        )
    return bound


def atan2(a: TensorLike, b: TensorLike) -> Tensor:
    """The angle in (-pi, pi] between the positive x axis and the point (b, a).

    >>> plugrad.atan2([1.0, -1.0], [1.0, 0.0])
    tensor([ 0.7853981, -1.5707964], dtype=float32)

    The result has the common shape and dtype of a and b; integers and bools give float32.

    Raises:
        DTypeError: an operand holds complex numbers or strings, or no dtype holds both.
        ShapeError: the shapes do not broadcast.
    """
    return binary_op(binary.atan2, a, b, "atan2")


def hypot(a: TensorLike, b: TensorLike) -> Tensor:
    """The length ``sqrt(a**2 + b**2)`` of the vector (a, b), without overflow or underflow of the squares.

    >>> plugrad.hypot([3.0, 3e30], [4.0, 4e30])
    tensor([5.e+00, 5.e+30], dtype=float32)

    The result has the common shape and dtype of a and b; integers and bools give float32. The
    gradient at the origin is 0.

    Raises:
        DTypeError: an operand holds complex numbers or strings, or no dtype holds both.
        ShapeError: the shapes do not broadcast.
    """
    return binary_op(binary.hypot, a, b, "hypot")


def logaddexp(a: TensorLike, b: TensorLike) -> Tensor:
    """The logarithm ``log(exp(a) + exp(b))``, without overflow or underflow of the exponentials.

    >>> plugrad.logaddexp([0.0, -1000.0], [0.0, 1000.0])
    tensor([6.931472e-01, 1.000000e+03], dtype=float32)

    The result has the common shape and dtype of a and b; integers and bools give float32.

    Raises:
        DTypeError: an operand holds complex numbers or strings, or no dtype holds both.
        ShapeError: the shapes do not broadcast.
    """
    return binary_op(binary.log_add_exp, a, b, "logaddexp")


def nextafter(a: TensorLike, b: TensorLike) -> Tensor:
    """The number of the common dtype that is next to a in the direction of b (IEEE 754).

    >>> plugrad.nextafter([1.0, 1.0], [2.0, 0.0]) - 1
    tensor([ 1.1920929e-07, -5.9604645e-08], dtype=float32)

    The result has the common shape of a and b; integers and bools give float32.

    Raises:
        DTypeError: an operand holds complex numbers or strings, or no dtype holds both.
        ShapeError: the shapes do not broadcast.
    """
    return binary_op(binary.next_after, a, b, "nextafter")


def copysign(a: TensorLike, b: TensorLike) -> Tensor:
    """The magnitude of a with the sign of b, which may be that of -0.0.

    >>> plugrad.copysign([1.0, -2.0], [-0.0, 3.0])
    tensor([-1.,  2.], dtype=float32)

    The result has the common shape and dtype of a and b; integers and bools give float32.

    Raises:
        DTypeError: an operand holds complex numbers or strings, or no dtype holds both.
        ShapeError: the shapes do not broadcast.
    """
    x, y = promote_operands(a, b, unary.sign_bit, "copysign")
    return where(logical_xor(unary.sign_bit(x), unary.sign_bit(y)), -x, x)


def div_no_nan(a: TensorLike, b: TensorLike) -> Tensor:
    """The quotient ``a / b``, and 0 where b is 0, in their common shape and dtype.

    >>> plugrad.div_no_nan([1.0, 2.0], [0.0, 4.0])
    tensor([0. , 0.5], dtype=float32)

    Integers and bools are divided as float32. The gradients are 0 too where b is 0.

    Raises:
        DTypeError: an operand holds strings, or no dtype holds both.
        ShapeError: the shapes do not broadcast.
    """
    x, y = promote_operands(a, b, binary.divide, "div_no_nan")
    is_zero = equal(y, 0)
    return where(is_zero, 0, x / where(is_zero, 1, y))


def equal(a: TensorLike, b: TensorLike) -> Tensor:
    """Whether a and b are equal, as bools in their common shape; NaN equals nothing.

    >>> plugrad.equal([1.0, 2.0], 2)
    tensor([False,  True], dtype=bool)

    Raises:
        DTypeError: no dtype holds both operands, such as a string and a number.
        ShapeError: the shapes do not broadcast.
    """
    return binary_op(binary.equal, a, b, "equal")


def not_equal(a: TensorLike, b: TensorLike) -> Tensor:
    """Whether a and b differ, as bools in their common shape; NaN differs from everything.

    >>> plugrad.not_equal([1.0, 2.0], 2)
    tensor([ True, False], dtype=bool)

    Raises:
        DTypeError: no dtype holds both operands, such as a string and a number.
        ShapeError: the shapes do not broadcast.
    """
    return binary_op(binary.not_equal, a, b, "not_equal")


def greater(a: TensorLike, b: TensorLike) -> Tensor:
    """Whether a is greater than b, as bools in their common shape.

    >>> plugrad.greater([1.0, 2.0, 3.0], 2)
    tensor([False, False,  True], dtype=bool)

    Raises:
        DTypeError: an operand holds complex numbers, or no dtype holds both.
        ShapeError: the shapes do not broadcast.
    """
    return binary_op(binary.greater, a, b, "greater")


def greater_equal(a: TensorLike, b: TensorLike) -> Tensor:
    """Whether a is greater than or equal to b, as bools in their common shape.

    >>> plugrad.greater_equal([1.0, 2.0, 3.0], 2)
    tensor([False,  True,  True], dtype=bool)

    Raises:
        DTypeError: an operand holds complex numbers, or no dtype holds both.
        ShapeError: the shapes do not broadcast.
    """
    return binary_op(binary.greater_equal, a, b, "greater_equal")


def less(a: TensorLike, b: TensorLike) -> Tensor:
    """Whether a is less than b, as bools in their common shape.

    >>> plugrad.less([1.0, 2.0, 3.0], 2)
    tensor([ True, False, False], dtype=bool)

    Raises:
        DTypeError: an operand holds complex numbers, or no dtype holds both.
        ShapeError: the shapes do not broadcast.
    """
    return binary_op(binary.less, a, b, "less")


def less_equal(a: TensorLike, b: TensorLike) -> Tensor:
    """Whether a is less than or equal to b, as bools in their common shape.

    >>> plugrad.less_equal([1.0, 2.0, 3.0], 2)
    tensor([ True,  True, False], dtype=bool)

    Raises:
        DTypeError: an operand holds complex numbers, or no dtype holds both.
        ShapeError: the shapes do not broadcast.
    """
    return binary_op(binary.less_equal, a, b, "less_equal")


def logical_and(a: TensorLike, b: TensorLike) -> Tensor:
    """Whether a and b are both True, as bools in their common shape.

    >>> plugrad.logical_and([True, True, False], [True, False, False])
    tensor([ True, False, False], dtype=bool)

    Numbers count as True unless they are 0.

    Raises:
        DTypeError: an operand holds strings.
        ShapeError: the shapes do not broadcast.
    """
    op = "logical_and"
    return binary_op(binary.logical_and, as_bools(a, op), as_bools(b, op), op)


def logical_or(a: TensorLike, b: TensorLike) -> Tensor:
    """Whether a, b or both are True, as bools in their common shape.

    >>> plugrad.logical_or([True, True, False], [True, False, False])
    tensor([ True,  True, False], dtype=bool)

    Numbers count as True unless they are 0.

    Raises:
        DTypeError: an operand holds strings.
        ShapeError: the shapes do not broadcast.
    """
    op = "logical_or"
    return binary_op(binary.logical_or, as_bools(a, op), as_bools(b, op), op)


def logical_xor(a: TensorLike, b: TensorLike) -> Tensor:
    """Whether exactly one of a and b is True, as bools in their common shape.

    >>> plugrad.logical_xor([True, True, False], [True, False, False])
    tensor([False,  True, False], dtype=bool)

    Numbers count as True unless they are 0.

    Raises:
        DTypeError: an operand holds strings.
        ShapeError: the shapes do not broadcast.
    """
    op = "logical_xor"
    return binary_op(binary.logical_xor, as_bools(a, op), as_bools(b, op), op)


@overload
def where(condition: TensorLike, a: TensorLike, b: TensorLike, /) -> Tensor: ...


@overload
def where(condition: TensorLike, /) -> tuple[Tensor, ...]: ...


def where(
    condition: TensorLike, a: TensorLike | None = None, b: TensorLike | None = None, /
) -> Tensor | tuple[Tensor, ...]:
    """The elements of `a` where `condition` is True, and those of `b` elsewhere.

    >>> plugrad.where([True, False], [1.0, 2.0], 0)
    tensor([1., 0.], dtype=float32)

    The result has the shape to which all three broadcast, and the common dtype of `a` and `b`. Without them, it is
    where `condition` is True: its positions, as `nonzero` gives them.

    >>> plugrad.where([False, True, True])
    (tensor([1, 2], dtype=int32),)

    Args:
        condition: bools.
        a: what is taken where `condition` is True.
        b: what is taken where it is False.

    Raises:
        DTypeError: `condition` is not bool, or no dtype holds both `a` and `b`.
        ShapeError: the shapes do not broadcast, or there are only conditions and they have no axis.
        ArgumentError: `b` is missing.
    """
    if isinstance(condition, Tensor) and condition.array.dtype in _CONDITION_DTYPES:
        chosen = condition
    else:
        home = next((x.backend for x in (condition, a, b) if isinstance(x, Tensor)), None)
        chosen = as_tensor(condition, "where", "condition", backend=home)
        if chosen.dtype is not bool_:
            raise DTypeError(f"where: condition is {chosen.dtype}; it must be bool, such as x > 0")
    if a is None and b is None:
        if not chosen.ndim:
            raise ShapeError("where: condition is 0-d; without a and b, it must have an axis")
        return tuple(movement.unpack(indexing.where_true(chosen), axis=1))
    if a is None or b is None:
        raise ArgumentError("where takes both a and b, or neither for the positions")
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        a = as_tensor(a, "where", "a", backend=chosen.backend)
    a, b = promote_operands(a, b, binary.select, "where")
    return binary.select.call(chosen, a, b)


_CONDITION_DTYPES: Final = equivalents(BOOL)
"""The spellings of the dtype bool, which conditions have: plugrad's and NumPy's."""
_FLOATING_DTYPES: Final = equivalents(FLOATING)
"""The floating dtypes, in plugrad's and NumPy's spelling."""


def add_n(tensors: Sequence[TensorLike]) -> Tensor:
    """The sum of tensors of one shape, in that shape and their promoted dtype.

    >>> plugrad.add_n([plugrad.ones((2,)), plugrad.ones((2,)), plugrad.ones((2,))])
    tensor([3., 3.], dtype=float32)

    Args:
        tensors: a list of at least one tensor.

    Raises:
        ArgumentError: `tensors` is not a list.
        ArgumentValueError: the list is empty.
        DTypeError: all tensors hold bools, one holds strings, or no dtype holds all.
        ShapeError: the shapes differ.
    """
    return binary.add_n(*promote_to_one_dtype(as_list(tensors, "add_n", "tensors"), "add_n"))
