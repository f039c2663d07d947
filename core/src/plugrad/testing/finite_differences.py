"""Compare gradient rules with finite differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plugrad.errors import ArgumentError, ArgumentValueError
from plugrad.ops.arguments import as_tensor
from plugrad.ops.binary import add_n
from plugrad.ops.complex import complex, imag, real
from plugrad.ops.creation import asarray
from plugrad.ops.movement import stack
from plugrad.ops.reduction import sum
from plugrad.ops.unary import astype
from plugrad.tensor.tensor import Tensor, TensorLike
from plugrad.transforms.gradients import grad
from plugrad.types.dtype import DTypeLike, as_dtype, float32, float64

Array = NDArray[Any]
"""A NumPy array of any dtype and shape."""
Inputs = Sequence[Tensor]
"""The tensors that a differentiated function takes."""


class _Precision(NamedTuple):
    """The step and the allowed errors of finite differences in one dtype."""

    eps: float
    """The step of the differences."""
    rtol: float
    """The largest difference that is allowed, relative to the derivative."""
    rounding_unit: float
    """The rounding error of one operation."""


# The differences are of fourth order: their error is eps**4 for the step and unit / eps for the
# rounding.
_PRECISION_OF_DTYPE = {
    float64: _Precision(1e-3, 1e-6, 2.0**-52),
    float32: _Precision(1e-2, 2e-3, 2.0**-23),
}


def check_gradient(
    function: Callable[..., Tensor],
    *args: TensorLike,
    order: int = 2,
    rtol: float | None = None,
    eps: float | None = None,
    dtype: DTypeLike | None = None,
) -> None:
    """Raise unless the gradient of a function agrees with finite differences.

    >>> from plugrad.testing import check_gradient
    >>> check_gradient(plugrad.tanh, [0.5, -1.0])
    >>> check_gradient(lambda x: x * plugrad.stop_gradient(x), [0.5, -1.0])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    AssertionError: gradient of <lambda> of order 1 for argument 0 of shape (2,): ...

    The function's result, squared and weighted, is differentiated along a random direction of each
    argument. At the second order the same is done with that derivative, and so on, which
    checks the gradients of the gradient rules. Functions with a kink need arguments that are at
    least ``3 * eps`` away from it.

    Args:
        function: takes tensors and returns one floating or complex tensor.
        *args: tensors, or what `asarray` takes; the floating and complex ones are differentiated.
        order: how often to differentiate, 1 or more.
        rtol: the largest difference, as a part of the derivative; by default 1e-6 for float64
            and 2e-3 for float32.
        eps: the step; by default 1e-3 for float64 and 1e-2 for float32.
        dtype: in what to compute: by default float64, or float32 where there is no float64.

    Raises:
        AssertionError: they do not agree; the message says for which argument, at which order, by
            how much and where most.
        ArgumentError: no argument is floating, or the function does not return a tensor.
        ArgumentValueError: the order is less than 1, or the dtype neither float32 nor float64.
    """
    if order < 1:
        raise ArgumentValueError(f"check_gradient: order={order} must be 1 or more")
    tensors = [as_tensor(x, "check_gradient", f"argument {i}") for i, x in enumerate(args)]
    positions = [i for i, x in enumerate(tensors) if x.dtype.is_inexact]
    if not positions:
        raise ArgumentError(
            "check_gradient: there is nothing to differentiate; "
            f"none of the {len(args)} arguments is floating"
        )
    backend = tensors[positions[0]].backend
    best = float64 if float64 in backend.dtypes() else float32
    wanted = best if dtype is None else as_dtype(dtype)
    if wanted not in _PRECISION_OF_DTYPE:
        raise ArgumentValueError(f"check_gradient: dtype={wanted} must be float64 or float32")
    default = _PRECISION_OF_DTYPE[wanted]
    precision = _Precision(eps or default.eps, rtol or default.rtol, default.rounding_unit)
    name = getattr(function, "__name__", None) or repr(function)
    function, tensors = _split_complex_inputs(function, tensors)
    inputs = [astype(x, wanted) if x.dtype.is_inexact else x for x in tensors]
    generator = np.random.default_rng(0)
    objective = _weighted_sum(function, inputs, generator)
    for level in range(1, order + 1):
        directions = {i: _random_weights(generator, inputs[i].shape) for i in positions}
        _Comparison(objective, inputs, directions, precision, f"{name} of order {level}").check()
        objective = _directional_derivative(objective, inputs, directions)


def _split_complex_inputs(
    function: Callable[..., Tensor], inputs: Inputs
) -> tuple[Callable[..., Tensor], Inputs]:
    """Return a function of real numbers that computes the same: complex tensors become two parts on a new axis."""
    complex_ones = {i for i, x in enumerate(inputs) if x.dtype.kind == "complex"}

    def split_parts(x: Tensor) -> Tensor:
        return stack([real(x), imag(x)]) if x.dtype.kind == "complex" else x

    def apply_to_parts(*xs: Tensor) -> Tensor:
        y = function(*[complex(x[0], x[1]) if i in complex_ones else x for i, x in enumerate(xs)])
        return split_parts(y) if isinstance(y, Tensor) else y  # pyright: ignore[reportUnnecessaryIsInstance] - people return anything

    return apply_to_parts, [split_parts(x) for x in inputs]


@dataclass(frozen=True)
class _Objective:
    """A function to differentiate in two forms: of tensors for the rules, and of arrays for finite differences."""

    scalar_objective: Callable[..., Tensor]
    """Returns the value as a 0-d tensor."""
    host_objective: Callable[[Inputs], Array]
    """Returns terms whose sum is the value; they are added in float64."""


def _weighted_sum(
    function: Callable[..., Tensor], inputs: Inputs, generator: np.random.Generator
) -> _Objective:
    """Return the sum of ``y + y**2 / 2`` with random weights, where y is what the function returns.

    The square gives linear functions a second derivative too: the one through dy.
    """
    value = function(*inputs)
    if not isinstance(value, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentError(
            f"check_gradient: the function must return one tensor, not {type(value).__name__}"
        )
    weights = _random_weights(generator, value.shape)
    factor = _tensor_like(value, weights)

    def scalar_objective(*xs: Tensor) -> Tensor:
        y = function(*xs)
        return sum((y + y * y * 0.5) * factor)

    def host_objective(xs: Inputs) -> Array:
        y = _to_float64(function(*xs))
        return (y + y * y * 0.5) * weights

    return _Objective(scalar_objective, host_objective)


def _directional_derivative(
    objective: _Objective, inputs: Inputs, directions: dict[int, Array]
) -> _Objective:
    """Return the directional derivative of an objective as another objective."""
    gradient = grad(objective.scalar_objective, tuple(directions), allow_unused=True)
    factors = [_tensor_like(inputs[i], direction) for i, direction in directions.items()]

    def scalar_objective(*xs: Tensor) -> Tensor:
        return add_n([sum(g * factor) for g, factor in zip(gradient(*xs), factors, strict=True)])

    def host_objective(xs: Inputs) -> Array:
        products = [
            _to_float64(g) * d for g, d in zip(gradient(*xs), directions.values(), strict=True)
        ]
        return np.concatenate([product.reshape(-1) for product in products])

    return _Objective(scalar_objective, host_objective)


@dataclass(frozen=True)
class _Comparison:
    """The derivative of an objective by gradient rules and by finite differences, for each argument."""

    objective: _Objective
    """The function that is differentiated, in both forms."""
    inputs: Inputs
    """The arguments at which it is differentiated."""
    directions: dict[int, Array]
    """By the position of an argument, the direction of its derivative."""
    precision: _Precision
    label: str
    """The function's name and the order, for error messages."""

    def check(self) -> None:
        """Raise unless the derivatives of the rules agree with the finite differences."""
        differentiated = grad(
            self.objective.scalar_objective, tuple(self.directions), allow_unused=True
        )
        gradients = map(_to_float64, differentiated(*self.inputs))
        for gradient, position in zip(gradients, self.directions, strict=True):
            direction = self.directions[position]
            products = gradient * direction
            measured, noise = self._finite_difference(position, direction)
            scale = max(abs(measured), float(np.linalg.norm(products)))
            allowed = self.precision.rtol * scale + noise
            difference = abs(float(products.sum()) - measured)
            if not difference <= allowed:
                raise AssertionError(
                    f"gradient of {self.label} for argument {position} of shape {gradient.shape}: "
                    f"along a random direction the rules give {products.sum():.9g} and finite "
                    f"differences {measured:.9g}; they differ by {difference:.3g}, "
                    f"{allowed:.3g} is allowed{self._describe_worst_element(position, gradient)}"
                )

    def _finite_difference(self, position: int, direction: Array) -> tuple[float, float]:
        """Return the derivative for the argument at a position along a direction, and a bound of its error."""
        step = self.precision.eps
        x = self.inputs[position]
        base = _to_float64(x)
        total, magnitude = 0.0, 0.0
        for multiple, weight in ((1, 8), (-1, -8), (2, -1), (-2, 1)):
            moved = list(self.inputs)
            moved[position] = _tensor_like(x, base + multiple * step * direction)
            terms = self.objective.host_objective(moved)
            total += weight * float(terms.sum())
            magnitude = max(magnitude, float(np.abs(terms).sum()))
        noise = 8 * self.precision.rounding_unit * magnitude / step + 16 * step**4
        return total / (12 * step), noise

    def _describe_worst_element(self, position: int, gradient: Array) -> str:
        """Describe the element with the largest error, unless there are too many elements."""
        if not 1 < gradient.size <= 200:
            return ""
        worst = max(self._iter_element_errors(position, gradient), key=lambda found: found[0])
        return f". Element {worst[1]} is furthest off: {worst[2]:.9g} instead of {worst[3]:.9g}"

    def _iter_element_errors(
        self, position: int, gradient: Array
    ) -> Iterator[tuple[float, tuple[int, ...], float, float]]:
        """Yield for each element the error, the index, and the derivatives by the rules and by finite differences."""
        for place in np.ndindex(gradient.shape):
            unit = np.zeros(gradient.shape)
            unit[place] = 1
            measured, _ = self._finite_difference(position, unit)
            given = float(gradient[place])
            yield float(np.nan_to_num(abs(given - measured), nan=np.inf)), place, given, measured


def _random_weights(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return numbers between 0.5 and 1 with random signs, so that every element matters."""
    return np.asarray(generator.uniform(0.5, 1, shape) * generator.choice([-1.0, 1.0], shape))


def _to_float64(x: Tensor) -> Array:
    """Return the values of a tensor as a NumPy array of float64."""
    return x.numpy().astype(np.float64)


def _tensor_like(x: Tensor, values: Array) -> Tensor:
    """Return values as a tensor of the dtype and on the device of x."""
    return asarray(values.astype(str(x.dtype)), device=x.backend)
