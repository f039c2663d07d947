"""Steps that learn the curvature of a function from its gradients."""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from plugrad.errors import ArgumentValueError, DTypeError
from plugrad.ops.attributes import check_integer, check_real
from plugrad.ops.movement import concat, reshape, stack
from plugrad.ops.reduction import max, sum
from plugrad.ops.unary import abs
from plugrad.optimizers.line_search import LinePoint, search_line
from plugrad.transforms.gradients import select_trainable, variable_grads
from plugrad.types.arguments import explain_wrong_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from plugrad.tensor.tensor import Tensor
    from plugrad.transforms.variable import Variable


class _CurvaturePair(NamedTuple):
    """One step of L-BFGS: the change of the variables, and the change of the gradient."""

    step: Tensor
    """The change of the variables, as one vector."""
    gradient_change: Tensor
    """The change of the gradient, as one vector."""
    inverse_curvature: Tensor
    """One divided by the dot product of both, 0-d."""


class LBFGS:
    """Limited-memory BFGS with a line search (Liu and Nocedal, 1989), for functions that are not random.

    The inverse of the Hessian is estimated from the last steps and gradients (Nocedal and Wright, algorithm 7.4). Each
    step fulfills the strong Wolfe conditions (algorithms 3.5 and 3.6), for which the function may be called several
    times. One call of `minimize` takes many steps, with all examples at once; it is no optimizer for `nn.fit`.

    >>> w = plugrad.Variable([-1.0, 2.0])
    >>> def rosenbrock():
    ...     return (1 - w[0]) ** 2 + 100 * (w[1] - w[0] ** 2) ** 2
    >>> optimizer = plugrad.optimizers.LBFGS(max_iterations=50)
    >>> optimizer.minimize(rosenbrock, [w])
    tensor(104., dtype=float32)
    >>> bool(plugrad.all(plugrad.abs(w - 1) < 1e-3))
    True

    Values, slopes and the largest element of the gradient are read from the device in each call of the function. The
    function may be one of `plugrad.jit`.

    Args:
        learning_rate: the first step to try along a direction. In the first step of all, which knows no curvature, it
            is divided by the sum of the absolute values of the gradient, if that is more than 1.
        max_iterations: the number of steps in one call of `minimize`.
        history_size: the number of steps from which the curvature is estimated.
        tolerance_gradient: the absolute value of the largest element of the gradient at which the minimum is found.
        tolerance_change: the largest change of an element, or of the value, with which a step is the last one.
        max_evaluations: the number of calls of the function after which no other step begins; None means ``1.25 *
            max_iterations``.

    Raises:
        ArgumentError: an argument is not a number.
        ArgumentValueError: a number is negative, or there is no step.
    """

    @explain_wrong_calls
    def __init__(
        self,
        learning_rate: float = 1.0,
        max_iterations: int = 20,
        history_size: int = 10,
        *,
        tolerance_gradient: float = 1e-7,
        tolerance_change: float = 1e-9,
        max_evaluations: int | None = None,
    ) -> None:
        """Check and store the arguments."""
        self.max_iterations = check_integer(max_iterations, "LBFGS", "max_iterations", least=1)
        self.history_size = check_integer(history_size, "LBFGS", "history_size", least=1)
        if max_evaluations is None:
            max_evaluations = self.max_iterations * 5 // 4 + 1
        self.max_evaluations = check_integer(max_evaluations, "LBFGS", "max_evaluations", least=1)
        self.learning_rate = _check_non_negative("learning_rate", learning_rate)
        self.tolerance_gradient = _check_non_negative("tolerance_gradient", tolerance_gradient)
        self.tolerance_change = _check_non_negative("tolerance_change", tolerance_change)
        self.iterations = 0
        """The number of steps taken."""
        self.evaluations = 0
        """How often a function has been called."""
        self.has_converged = False
        """Whether the last call of `minimize` ended within the tolerances, and not because of its numbers of calls."""
        self._pairs: deque[_CurvaturePair] = deque(maxlen=self.history_size)
        self._known: list[Variable] = []

    def minimize(
        self, function: Callable[[], Tensor], variables: Collection[Variable] = ()
    ) -> Tensor:
        """Take steps until the function is at a minimum, and return its value before the first.

        If an error is raised, the variables have the values of the last step that has been taken.

        Args:
            function: a function without arguments that computes a scalar from variables, always the same one.
            variables: the variables to move, of one dtype. What earlier calls have learnt about them is used.

        Raises:
            ArgumentError, ShapeError, GradientNotFound: as for `Optimizer.minimize`.
            DTypeError: the variables do not have one real dtype.
        """
        trained = select_trainable(variables, "minimize")
        dtypes = {v.dtype for v in trained}
        if len(dtypes) != 1 or not all(d.kind == "floating" for d in dtypes):
            raise DTypeError(
                f"LBFGS: the variables are {', '.join(sorted(map(str, dtypes)))}; they must have one floating dtype"
            )
        if [*map(id, trained)] != [*map(id, self._known)]:
            self._pairs.clear()
            self._known = trained
        line = _ObjectiveOnLine(function, trained)
        try:
            value = self._take_steps(line)
        finally:
            line.set_variables(line.place)
            self.evaluations += line.evaluations
        return value

    def _take_steps(self, line: _ObjectiveOnLine) -> Tensor:
        """Take line-search steps, each from the lowest point of the previous one."""
        value, gradient, largest = line.evaluate_start()
        self.has_converged = largest <= self.tolerance_gradient
        here = LinePoint(0.0, float(value.item()), 0.0, gradient)
        for _ in range(self.max_iterations):
            if self.has_converged or line.evaluations >= self.max_evaluations:
                break
            slope, length, total = line.set_direction(
                self._step_direction(here.gradient), here.gradient
            )
            if not slope < 0 and self._pairs:  # rounding has spoilt what was learnt
                self._pairs.clear()
                slope, length, total = line.set_direction(-here.gradient, here.gradient)
            if not slope < 0:
                break
            first = self.learning_rate * (1.0 if self._pairs else min(1.0, 1 / total))
            start = here._replace(step=0.0, slope=slope)
            found = search_line(
                line.evaluate_point, start, first, min_interval=self.tolerance_change / length
            )
            if found.step == 0:
                if not self._pairs:
                    break
                self._pairs.clear()
                continue
            self._store_curvature_pair(
                line.direction * found.step, found.gradient - here.gradient, found, slope
            )
            line.place = line.variables_at(found.step)
            self.iterations += 1
            is_still = found.step * length <= self.tolerance_change
            is_flat = here.value - found.value <= self.tolerance_change
            is_level = line.max_norm(found.gradient) <= self.tolerance_gradient
            self.has_converged = is_still or is_flat or is_level
            here = found
        return value

    def _store_curvature_pair(
        self, step: Tensor, gradient_change: Tensor, end_point: LinePoint, start_slope: float
    ) -> None:
        """Store a step and the change of the gradient if the curvature along it is positive."""
        if end_point.step * (end_point.slope - start_slope) > 0:
            self._pairs.append(
                _CurvaturePair(step, gradient_change, 1 / sum(step * gradient_change))
            )

    def _step_direction(self, gradient: Tensor) -> Tensor:
        """Return the direction of the next step: minus the estimated inverse Hessian times the gradient (7.4)."""
        q = -gradient
        weights: list[Tensor] = []
        for pair in reversed(self._pairs):
            weight = sum(pair.step * q) * pair.inverse_curvature
            q = q - pair.gradient_change * weight
            weights.append(weight)
        if self._pairs:
            last = self._pairs[-1]
            q = q / (
                last.inverse_curvature * sum(last.gradient_change * last.gradient_change)
            )  # (7.20)
        for pair, weight in zip(self._pairs, reversed(weights), strict=True):
            q = q + pair.step * (weight - sum(pair.gradient_change * q) * pair.inverse_curvature)
        return q


class _ObjectiveOnLine:
    """The objective function restricted to a line, for a line search; its values are read as numbers."""

    def __init__(self, function: Callable[[], Tensor], variables: Sequence[Variable]) -> None:
        self.function = function
        self.variables = variables
        self.place = _concatenate_flat(variables)
        """The values of all variables at the beginning of the line."""
        self.direction = self.place
        self.evaluations = 0

    def evaluate_start(self) -> tuple[Tensor, Tensor, float]:
        """Return the value and the gradient at the start, and the gradient's largest element."""
        value, gradient = self._compute_value_and_gradients()
        return value, gradient, self.max_norm(gradient)

    def set_direction(self, direction: Tensor, gradient: Tensor) -> tuple[float, float, float]:
        """Set the direction; return the slope along it, its largest element, and the 1-norm of the gradient."""
        self.direction = direction
        numbers = stack([sum(direction * gradient), max(abs(direction)), sum(abs(gradient))])
        slope, length, total = numbers.tolist()
        return slope, length, total

    def evaluate_point(self, step: float) -> LinePoint:
        """Return the point at a step."""
        self.set_variables(self.variables_at(step))
        value, gradient = self._compute_value_and_gradients()
        slope = sum(gradient * self.direction)
        numbers = stack([value.astype(slope.dtype), slope]).tolist()
        return LinePoint(step, numbers[0], numbers[1], gradient)

    def variables_at(self, step: float) -> Tensor:
        """Return the variables' values at a step along the line."""
        return self.place + self.direction * step

    def set_variables(self, flat_values: Tensor) -> None:
        """Set the variables to the consecutive parts of a vector."""
        start = 0
        for variable in self.variables:
            part = flat_values[start : start + variable.size]
            variable.assign(reshape(part, variable.shape))
            start += variable.size

    def max_norm(self, gradient: Tensor) -> float:
        """Return the largest absolute value of a gradient."""
        return float(max(abs(gradient)).item()) if gradient.size else 0.0

    def _compute_value_and_gradients(self) -> tuple[Tensor, Tensor]:
        """Return the value, and the gradients as one vector."""
        self.evaluations += 1
        value, gradients = variable_grads(self.function, self.variables)
        return value, _concatenate_flat(gradients)


def _concatenate_flat(tensors: Sequence[Tensor]) -> Tensor:
    """Return the elements of all tensors as one vector."""
    flat = [reshape(x, (-1,)) for x in tensors]
    return concat(flat) if len(flat) > 1 else +flat[0]


def _check_non_negative(name: str, value: Any) -> float:
    """Return an argument as a float; raise unless it is finite and 0 or more."""
    if not 0 <= check_real(value, "LBFGS", name) < inf:
        raise ArgumentValueError(f"LBFGS: {name}={value} must be 0 or more")
    return float(value)
