"""What all optimizers do: check, step, remember."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeAlias

from plugrad.errors import ArgumentError, ArgumentValueError, DTypeError, ShapeError
from plugrad.ops.attributes import real
from plugrad.ops.creation import asarray, zeros_like
from plugrad.tensor.tensor import Tensor
from plugrad.transforms.gradients import variable_grads
from plugrad.transforms.variable import Variable
from plugrad.types.dtype import promote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Rate: TypeAlias = "float | Callable[[int], float]"
"""A learning rate, or a schedule: a function from the number of steps taken to one."""


class State(dict[str, Tensor]):
    """What an optimizer remembers of one variable: tensors by name, and the steps it has taken."""

    steps: int = 0


class Optimizer(ABC):
    """Moves variables against their gradients; keeps its state by variable, so the set of variables may change."""

    def __init__(self, learning_rate: Rate) -> None:
        """Check and keep the learning rate, which may be changed at any time."""
        self.learning_rate = learning_rate
        self.iterations = 0
        """The number of steps taken."""
        self._states: dict[Variable, State] = {}
        self._check(learning_rate=self.rate, least=0)

    @property
    def rate(self) -> float:
        """The learning rate of the next step: what a schedule says after `iterations` steps."""
        rate = self.learning_rate
        return rate(self.iterations) if callable(rate) else rate

    def minimize(self, function: Callable[[], Tensor], variables: Sequence[Variable]) -> Tensor:
        """Take one step and return the value before it.

        >>> w = plugrad.Variable([1.0])
        >>> plugrad.optimizers.SGD(0.1).minimize(lambda: plugrad.sum(w * w), [w])
        tensor(1., dtype=float32)
        >>> w.item()
        0.800000011920929
        """
        value, gradients = variable_grads(function, variables)
        self.apply_gradients(zip(variables, gradients, strict=True))
        return value

    def apply_gradients(self, pairs: Iterable[tuple[Variable, Tensor]]) -> None:
        """Move each variable by its gradient.

        Raises:
            ArgumentError: a pair is not a variable and a tensor.
            ShapeError: a gradient has not its variable's shape.
            DTypeError: a gradient would change its variable's dtype. Nothing is changed then.
        """
        pairs = list(pairs)
        for variable, gradient in pairs:
            if not isinstance(variable, Variable) or not isinstance(gradient, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
                raise ArgumentError(
                    "apply_gradients: expected are pairs of a Variable and a Tensor"
                )
            if gradient.shape != variable.shape:
                raise ShapeError(
                    f"apply_gradients: variable {variable.name!r} has shape {variable.shape}, "
                    f"its gradient {gradient.shape}"
                )
            if promote(variable.dtype, gradient.dtype) is not variable.dtype:
                raise DTypeError(
                    f"apply_gradients: variable {variable.name!r} is {variable.dtype}, its gradient "
                    f"{gradient.dtype}; cast it with astype"
                )
        rate = self.rate
        self.iterations += 1
        for variable, gradient in pairs:
            state = self._state(variable)
            state.steps += 1
            variable.assign(variable - self._step(variable, gradient, state, rate))

    def get_state(self, variables: Sequence[Variable]) -> dict[str, Any]:
        """The state as Python numbers and NumPy arrays, to be saved: one entry for each variable, in their order.

        >>> w = plugrad.Variable([1.0])
        >>> momentum = plugrad.optimizers.Momentum(0.1)
        >>> _ = momentum.minimize(lambda: plugrad.sum(w * w), [w])
        >>> momentum.get_state([w])
        {'iterations': 1, 'variables': [{'steps': 1, 'momentum': array([2.], dtype=float32)}]}
        """
        states = [self._states.get(variable, State()) for variable in variables]
        return {
            "iterations": self.iterations,
            "variables": [
                {"steps": state.steps, **{name: x.numpy().copy() for name, x in state.items()}}
                for state in states
            ],
        }

    def set_state(self, variables: Sequence[Variable], state: Mapping[str, Any]) -> None:
        """Go on from a state that `get_state` gave, for variables in the same order.

        Raises:
            ArgumentError: it is no state, or that of another number of variables or another optimizer.
            ShapeError: a piece of it has not its variable's shape; nothing is changed then.
        """
        if not {"iterations", "variables"} <= set(state):
            raise ArgumentError(
                "set_state: a state has 'iterations' and 'variables', as get_state gives it; this "
                f"one has {list(state)}"
            )
        entries = list(state["variables"])
        if len(entries) != len(variables):
            raise ArgumentError(
                f"set_state: the state is of {len(entries)} variables, {len(variables)} are given"
            )
        states: dict[Variable, State] = {}
        for variable, entry in zip(variables, entries, strict=True):
            restored = states[variable] = State()
            for name, value in entry.items():
                if name == "steps":
                    restored.steps = int(value)
                    continue
                if name not in self._slots():
                    raise ArgumentError(
                        f"set_state: {type(self).__name__} remembers {list(self._slots())} of a variable, "
                        f"not {name!r}; the state is of another optimizer"
                    )
                restored[name] = asarray(value, dtype=variable.dtype, device=variable.backend)
                if restored[name].shape != variable.shape:
                    raise ShapeError(
                        f"set_state: {name!r} of variable {variable.name!r} has shape "
                        f"{restored[name].shape}; the variable has {variable.shape}"
                    )
        self._states |= states
        self.iterations = int(state["iterations"])

    @abstractmethod
    def _step(self, variable: Variable, gradient: Tensor, state: State, rate: float) -> Tensor:
        """Return what is taken from the variable, and bring its state up to date."""

    def _state(self, variable: Variable) -> State:
        """Return the state of a variable; what it does not have yet starts at zero."""
        state = self._states.setdefault(variable, State())
        for name in self._slots():
            if name not in state:
                state[name] = self._first(variable, name)
        return state

    def _slots(self) -> tuple[str, ...]:
        """Return the names of the tensors that are remembered of each variable."""
        return ()

    def _first(self, variable: Variable, name: str) -> Tensor:
        return zeros_like(variable)

    def _check(self, *, least: float, below: float = float("inf"), **coefficients: float) -> None:
        """Raise if a coefficient is not a number in ``[least, below)``."""
        for name, value in coefficients.items():
            if not least <= real(value, type(self).__name__, name) < below:
                limits = f"in [{least}, {below})" if below < float("inf") else f"{least} or more"
                raise ArgumentValueError(f"{type(self).__name__}: {name}={value} must be {limits}")
