"""The factor of a loss that keeps gradients of float16 between its smallest and its largest numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from plugrad.errors import ArgumentError, ArgumentValueError, short_repr
from plugrad.ops.attributes import check_integer, check_real
from plugrad.ops.binary import add_n, logical_and, maximum, minimum, where
from plugrad.ops.creation import full
from plugrad.ops.reduction import sum
from plugrad.ops.unary import isfinite, logical_not
from plugrad.transforms.variable import Variable
from plugrad.types.dtype import float32

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from plugrad.tensor.backend import Backend
    from plugrad.tensor.tensor import Tensor

MAX_LOSS_SCALE: Final = 2.0**100
"""The largest factor; products of losses with larger ones are soon infinite."""


class LossScale:
    """A factor that grows as long as all gradients are finite, and shrinks when one is not (Micikevicius et al., 2018).

    >>> w = plugrad.Variable([1.0])
    >>> optimizer = plugrad.optimizers.SGD(0.25).with_loss_scale(plugrad.optimizers.LossScale(8.0))
    >>> optimizer.minimize(lambda: plugrad.sum(w * w), [w])
    tensor(1., dtype=float32)
    >>> w.tolist(), optimizer.loss_scale.value
    ([0.5], 8.0)

    An optimizer that has one differentiates the loss times the factor, and divides the gradients by it. A step with a
    gradient that is infinite or NaN leaves variables, and what is kept for them, as they are. All this is part of a
    traced step, and nothing is read on the host. A skipped step counts among the optimizer's `iterations`.

    Args:
        initial: the factor at first, a power of two; that of torch's GradScaler by default.
        growth_interval: the number of steps in a row with finite gradients after which the factor is doubled.

    Raises:
        ArgumentError: an argument is not a number.
        ArgumentValueError: `initial` is less than 1, or is too large, or `growth_interval` is less than 1.
    """

    def __init__(self, initial: float = 65536.0, growth_interval: int = 2000) -> None:
        self.initial: float = check_real(initial, "LossScale", "initial")
        if not 1 <= self.initial <= MAX_LOSS_SCALE:
            raise ArgumentValueError(
                f"LossScale: initial={short_repr(initial)} must be from 1 to {MAX_LOSS_SCALE}"
            )
        self.growth_interval: int = check_integer(
            growth_interval, "LossScale", "growth_interval", least=1
        )
        self._state: dict[str, float] = {"scale": self.initial, "good_steps": 0.0}
        self._variables: dict[str, tuple[Variable, Variable]] = {}

    @property
    def value(self) -> float:
        """The current factor, read on the host."""
        return self.get_state()["scale"]

    def factor_on(self, backend: Backend) -> Variable:
        """Return the factor, a variable on a device."""
        return self._variables_on(backend)[0]

    def unscale(self, gradients: Sequence[Tensor], backend: Backend) -> tuple[list[Tensor], Tensor]:
        """Return gradients on a backend divided by the factor, and a bool tensor that says whether all are finite.

        The factor changes for the next step.
        """
        factor, good_steps = self._variables_on(backend)
        inverse = 1 / factor
        unscaled = [g * inverse.astype(g.dtype) for g in gradients]
        # The sum of numbers among which one is infinite or NaN is so, too.
        is_finite = isfinite(add_n([sum(g.astype(float32)) for g in unscaled]))
        steps = good_steps + 1
        is_long = steps >= self.growth_interval
        grown = where(is_long, minimum(factor * 2, MAX_LOSS_SCALE), factor)
        factor.assign(where(is_finite, grown, maximum(factor / 2, 1.0)))
        good_steps.assign(where(logical_and(is_finite, logical_not(is_long)), steps, 0.0))
        return unscaled, is_finite

    def get_state(self) -> dict[str, float]:
        """Return the factor and the number of finite steps in a row."""
        for factor, good_steps in self._variables.values():
            return {"scale": factor.item(), "good_steps": good_steps.item()}
        return dict(self._state)

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that `get_state` returned.

        Raises:
            ArgumentError: it is something else.
        """
        try:
            found = {name: float(state[name]) for name in ("scale", "good_steps")}
        except (KeyError, TypeError, ValueError):
            raise ArgumentError(
                f"LossScale.set_state: {short_repr(state)} must have scale, good_steps, as get_state "
                "returns it"
            ) from None
        self._state = found
        for factor, good_steps in self._variables.values():
            factor.assign(found["scale"])
            good_steps.assign(found["good_steps"])

    def _variables_on(self, backend: Backend) -> tuple[Variable, Variable]:
        """Return the variables on a device that hold the factor and the number of finite steps."""
        found = self._variables.get(backend.label)
        if found is None:
            factor, good_steps = (
                Variable(
                    full((), value, dtype=float32, device=backend),
                    trainable=False,
                    name=f"loss_scale.{name}",
                )
                for name, value in self._state.items()
            )
            found = self._variables[backend.label] = factor, good_steps
        return found
