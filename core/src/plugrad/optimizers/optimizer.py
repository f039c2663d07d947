"""The base class of optimizers: it checks gradients, takes steps and keeps the state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from itertools import chain
from operator import add
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeAlias, cast

from plugrad.errors import ArgumentError, ArgumentValueError, ShapeError, short_repr
from plugrad.interruptions import run_uninterrupted
from plugrad.ops.attributes import as_list, check_integer, check_real
from plugrad.ops.binary import where
from plugrad.ops.creation import asarray, zeros
from plugrad.ops.optimizers import choose_step_dtype, make_update
from plugrad.ops.streams import repeat_result
from plugrad.ops.transfer import host_value, stop_gradient
from plugrad.optimizers.checks import (
    check_gradient,
    check_pairs,
    check_transformed_gradients,
    check_variables,
)
from plugrad.optimizers.loss_scale import LossScale
from plugrad.optimizers.updates import VariableState, group_by_kernel, iter_batches
from plugrad.tensor.effects import active_host_log, run_with_host_log
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.tracer import static_value
from plugrad.transforms.gradients import select_trainable, variable_grads
from plugrad.transforms.variable import Variable, assign_all
from plugrad.types.arguments import check_callable, explain_wrong_calls
from plugrad.types.dtype import float32

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from typing import Self

    from plugrad.ops.optimizers import UpdateStep
    from plugrad.optimizers.updates import VariableUpdate
    from plugrad.tensor.effects import HostLog

LearningRate: TypeAlias = "float | Callable[[int], float]"
"""A learning rate, or a schedule: a function from the number of steps taken to a learning rate."""


GradientTransform: TypeAlias = "Callable[[list[Tensor]], Sequence[Tensor]]"
"""A function of the gradients of a step that returns those to use."""

MISSING_ATTRIBUTE_HINTS: Final = {
    "add_param_group": "call optimizer.set_group(variables, learning_rate=…) for variables with other coefficients",
    "param_groups": "call optimizer.set_group(variables, learning_rate=…) for variables with other coefficients",
    "step": "call optimizer.minimize(f, variables), which computes gradients and takes a step",
    "zero_grad": "gradients are not kept; each call of optimizer.minimize(f, variables) computes them anew",
}
"""By the name of an attribute in other frameworks: what to write here."""


class _ParamGroup(NamedTuple):
    """The coefficients of a group of variables."""

    own_coefficients: dict[str, Any]
    """The coefficients set for this group only, by name."""
    shared_names: tuple[str, ...]
    """The names of the coefficients that follow the optimizer's attributes."""
    optimizer: Optimizer
    """An optimizer with the group's coefficients, which computes steps and keeps no state of variables."""


class Optimizer(ABC):
    """An object that updates variables along their gradients, and keeps a state for each variable.

    The set of variables may change from step to step. A subclass names in `_slot_names` the slots of a
    variable's state, and says what takes a step, with which coefficients: `_update_rule` and `_step_coefficients`.

    The slots are variables. The counters and the learning rate are numbers of Python: the coefficients are computed
    of them, and a step is counted, in a host value, which a traced program computes anew in each of its calls.
    """

    def __init_subclass__(cls) -> None:
        """Let wrong calls of the class show how it is called: others call a learning rate lr."""
        super().__init_subclass__()
        if "__init__" in vars(cls):
            cls.__init__ = explain_wrong_calls(cls.__init__)

    @explain_wrong_calls
    def __init__(self, learning_rate: LearningRate) -> None:
        """Check and store the learning rate, which may be changed at any time.

        Raises:
            ArgumentError: the learning rate is not a number.
            ArgumentValueError: the learning rate is negative.
        """
        self.learning_rate = learning_rate
        self.iterations = 0
        """The number of steps taken."""
        self.transforms: tuple[GradientTransform, ...] = ()
        """What gradients go through at the beginning of each step; see `with_transforms`."""
        self.loss_scale: LossScale | None = None
        """The factor of losses whose gradients may be too small for float16; see `with_loss_scale`."""
        self._states: dict[Variable, VariableState] = {}
        self._groups: dict[Variable, _ParamGroup] = {}
        _ = self.rate

    if not TYPE_CHECKING:  # type checkers know the methods

        def __getattr__(self, name: str) -> NoReturn:
            """Raise an AttributeError; for methods of other frameworks, name the replacement."""
            remedy = f": {MISSING_ATTRIBUTE_HINTS[name]}" if name in MISSING_ATTRIBUTE_HINTS else ""
            raise AttributeError(
                f"{self._name!r} object has no attribute {name!r}{remedy}", name=name, obj=self
            )

    @property
    def rate(self) -> float:
        """The learning rate of the next step; a schedule is called with `iterations`.

        Raises:
            ArgumentError: it is not a number.
            ArgumentValueError: it is negative.
        """
        rate = self.learning_rate
        if isinstance(rate, float) and rate >= 0:  # as mostly, and each call of a program asks
            return float(rate)
        rate = rate(self.iterations) if callable(rate) else rate
        number = check_real(rate, self._name, "learning_rate")
        if not number >= 0:
            self._check_coefficients(learning_rate=rate, lower_bound=0)  # raises
        return number

    @property
    def _name(self) -> str:
        """The name of the optimizer's class, for error messages."""
        return type(self).__name__

    def with_transforms(self, *functions: GradientTransform) -> Self:
        """Apply functions to the gradients at the start of each step, in order; return the optimizer.

        >>> clip = lambda gradients: plugrad.optimizers.clip_by_global_norm(gradients, 1.0)
        >>> optimizer = plugrad.optimizers.SGD(0.1).with_transforms(
        ...     plugrad.optimizers.centralize, clip
        ... )
        >>> w = plugrad.Variable([0.0, 0.0])
        >>> optimizer.apply_gradients([(w, plugrad.asarray([0.0, 4.0]))])
        >>> w.tolist()
        [0.0, -0.10000000149011612]

        They are traced with the step by `plugrad.jit`, and see the gradients of all processes together, in their order.
        The functions take the place of earlier ones; without arguments, gradients stay as they are.

        Args:
            functions: each takes the list of all gradients of a step, and returns as many of the same shapes, such as
                `clip_by_global_norm`, `clip_by_norm`, `clip_by_value`, `centralize` and `add_noise` of this module do.

        Raises:
            ArgumentError: one of them is not a function.
        """
        for function in functions:
            check_callable(f"{self._name}.with_transforms", function)
        self.transforms = functions
        return self

    def with_loss_scale(self, loss_scale: LossScale | None) -> Self:
        """Differentiate scaled losses in `minimize`, and skip steps whose gradients are not finite.

        A state that `get_state` returns has the factor, too. Return the optimizer.

        Args:
            loss_scale: a `LossScale`, or None for none.

        Raises:
            ArgumentError: it is something else.
        """
        if loss_scale is not None and not isinstance(loss_scale, LossScale):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentError(
                f"{self._name}.with_loss_scale: {short_repr(loss_scale)} must be a LossScale, or None"
            )
        self.loss_scale = loss_scale
        return self

    def set_group(self, variables: Collection[Variable], **coefficients: Any) -> None:
        """Give some variables their own coefficients.

        >>> kernel, bias = plugrad.Variable(1.0), plugrad.Variable(1.0)
        >>> optimizer = plugrad.optimizers.AdamW(0.25, weight_decay=0.5)
        >>> optimizer.set_group([bias], learning_rate=0.5, weight_decay=0.0)
        >>> optimizer.apply_gradients([(kernel, plugrad.ones(())), (bias, plugrad.ones(()))])
        >>> kernel.item(), bias.item()
        (0.625, 0.5)

        They take the place of those that an earlier call gave to these variables; without any, the variables have
        those of the optimizer again, as they always have the coefficients that are not named here, also when these
        change. A state does not contain groups, as it does not contain other coefficients.

        Args:
            variables: the variables of the group.
            coefficients: arguments with which the optimizer could have been made; a learning rate may be a schedule.

        Raises:
            ArgumentError: the optimizer has no such coefficient, its value is none, or it decides what is kept for
                variables, so that it cannot be that of a group alone.
            ArgumentValueError: a coefficient is out of range.
        """
        found = check_variables(variables, "set_group")
        if not coefficients:
            for variable in found:
                self._groups.pop(variable, None)
            return
        shared = tuple(n for n in _list_constructor_arguments(type(self)) if n not in coefficients)
        for name in shared:
            if not hasattr(self, name):
                raise ArgumentError(
                    f"set_group: {self._name} does not keep its argument {name!r}, which a group must know; store "
                    f"it as self.{name}"
                )
        # What makes an optimizer checks its coefficients.
        member = type(self)(**{name: getattr(self, name) for name in shared}, **coefficients)
        if member._update_rule != self._update_rule or member._slot_names() != self._slot_names():
            raise ArgumentError(
                f"set_group: {', '.join(coefficients)} decides what {self._name} keeps for variables, which is the "
                "same for all; pass it when the optimizer is made"
            )
        self._groups |= dict.fromkeys(found, _ParamGroup(coefficients, shared, member))

    def group_of(self, variable: Variable) -> dict[str, Any]:
        """Return the coefficients that `set_group` has set for a variable.

        >>> w, optimizer = plugrad.Variable([1.0]), plugrad.optimizers.Adam()
        >>> optimizer.set_group([w], beta1=0.5)
        >>> optimizer.group_of(w)
        {'beta1': 0.5}
        """
        group = self._groups.get(variable)
        return {} if group is None else dict(group.own_coefficients)

    def minimize(
        self, function: Callable[[], Tensor], variables: Collection[Variable] = ()
    ) -> Tensor:
        """Take one step to reduce a function, and return its value before the step.

        >>> w = plugrad.Variable([1.0])
        >>> plugrad.optimizers.SGD(0.1).minimize(lambda: plugrad.sum(w * w), [w])
        tensor(1., dtype=float32)
        >>> w.item()
        0.800000011920929

        Args:
            function: a function without arguments that computes a scalar from variables.
            variables: the variables to move. Those whose `trainable` is False do not move, but at least
                one must be trainable.

        Raises:
            ArgumentError, ShapeError, DTypeError: as for `variable_grads` and `apply_gradients`.
            GradientNotFound: a kernel that `function` uses has no gradient.
        """
        trained = select_trainable(variables, "minimize")
        scale = static_value(lambda: self.loss_scale)
        if scale is None:
            value, gradients = variable_grads(function, trained)
            self.apply_gradients(zip(trained, gradients, strict=True))
            return value
        factor = stop_gradient(scale.factor_on(trained[0].backend))
        value, gradients = variable_grads(lambda: function().astype(float32) * factor, trained)
        self.apply_gradients(zip(trained, gradients, strict=True))
        return value / factor

    def apply_gradients(self, pairs: Iterable[tuple[Variable, Tensor]]) -> None:
        """Take one step with the given pairs (variable, gradient).

        With a loss scale, the gradients are those of the loss times its factor.

        If an argument is wrong or the schedule fails, no variable has changed, and the step does not count. So it is
        when a signal interrupts the call before the first variable has changed. The variables of one dtype and device
        change at once, together with what is kept for them, in parts of about `MAX_BATCH_ELEMENTS` elements. Only
        between such parts can a signal come when some have changed and others not; then the step counts. A call under
        `plugrad.jit` is not cut in two.

        Raises:
            ArgumentError: a pair is not a variable and a tensor, or a schedule did not return a number.
            ArgumentValueError: a schedule returned a negative number.
            ShapeError: a gradient does not have the shape of its variable.
            DTypeError: a gradient would change the dtype of its variable.
        """
        pairs = as_list(pairs, "apply_gradients", "pairs")
        check_pairs(pairs)
        is_finite = None
        step, names, scale, transforms = static_value(
            lambda: (self._update_rule, self._slot_names(), self.loss_scale, self.transforms)
        )
        if pairs and scale is not None:
            gradients, is_finite = scale.unscale([g for _, g in pairs], pairs[0][0].backend)
            pairs = [(v, g) for (v, _), g in zip(pairs, gradients, strict=True)]
        if pairs and transforms:
            pairs = _transform_gradients(pairs, transforms)
        moves: list[VariableUpdate] = []
        for variable, gradient in pairs:
            if gradient.array.dtype is not variable.array.dtype:
                gradient = gradient.astype(variable.dtype)
            moves.append((variable, gradient, self._get_state(variable, names)))
        indices = repeat_result(partial(group_by_kernel, moves, self._groups))
        groups = [(turn, [moves[i] for i in group]) for turn, group in indices]
        moved = [(turn, group[0][0], [state for _, _, state in group]) for turn, group in groups]
        numbers: list[tuple[float, ...]] = []

        def compute(group_index: int) -> tuple[float, ...]:
            """Return the coefficients of a group; the first group's call counts the step."""
            nonlocal numbers
            if group_index == 0:
                numbers = repeat_result(partial(self._begin_step, moved))
            return numbers[group_index]

        def take_step(log: HostLog) -> None:
            """Update the variables of all groups."""
            if not groups:
                count = partial(repeat_result, partial(self._begin_step, []))
                repeat_result(lambda: host_value(count, shape=(0,)))
                assign_all([], [], log)
            for i, (_, group) in enumerate(groups):
                self._apply_updates(step, group, names, partial(compute, i), log, is_finite)

        run_with_host_log(take_step)

    def get_state(self, variables: Collection[Variable]) -> dict[str, Any]:
        """Return the state as Python numbers and NumPy arrays, with one entry for each variable, in their order.

        >>> w = plugrad.Variable([1.0])
        >>> momentum = plugrad.optimizers.Momentum(0.1)
        >>> _ = momentum.minimize(lambda: plugrad.sum(w * w), [w])
        >>> momentum.get_state([w])
        {'iterations': 1, 'variables': [{'steps': 1, 'momentum': array([2.], dtype=float32)}]}
        """
        states = [
            self._states.get(v, VariableState()) for v in check_variables(variables, "get_state")
        ]
        scale = self.loss_scale
        return {
            "iterations": self.iterations,
            **({} if scale is None else {"loss_scale": scale.get_state()}),
            "variables": [
                {"steps": state.steps, **{name: x.numpy().copy() for name, x in state.items()}}
                for state in states
            ],
        }

    def set_state(self, variables: Collection[Variable], state: Mapping[str, Any]) -> None:
        """Continue from a state that `get_state` returned, for variables in the same order.

        If the state has a loss scale and the optimizer has none, it gets one. If an error is raised, the optimizer
        has not changed.

        Raises:
            ArgumentError: `state` is not a state, or belongs to another number of variables or another
                optimizer.
            ShapeError: a tensor of the state does not have the shape of its variable.
        """
        variables = check_variables(variables, "set_state")
        known = list(state) if isinstance(state, Mapping) else []  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
        if "iterations" not in known or "variables" not in known:
            raise ArgumentError(
                "set_state: a state has 'iterations' and 'variables', as get_state returns it; this "
                f"one has {short_repr(known)}"
            )
        iterations = check_integer(state["iterations"], "set_state", "iterations", least=0)
        entries = as_list(state["variables"], "set_state", "variables of the state")
        if len(entries) != len(variables):
            raise ArgumentError(
                f"set_state: the state is that of {len(entries)} variables, but {len(variables)} are given"
            )
        restored: dict[Variable, tuple[int, dict[str, Tensor]]] = {}
        for variable, entry in zip(variables, entries, strict=True):
            if not isinstance(entry, Mapping):
                raise ArgumentError(
                    f"set_state: {short_repr(entry)} is not the state of a variable"
                )
            steps, slots = 0, dict[str, Tensor]()
            for name, value in cast("Mapping[str, Any]", entry).items():
                if name == "steps":
                    steps = check_integer(value, "set_state", "steps", least=0)
                    continue
                if name not in self._slot_names():
                    raise ArgumentError(
                        f"set_state: {type(self).__name__} keeps {list(self._slot_names())} for a variable, "
                        f"not {short_repr(name)}; the state is that of another optimizer"
                    )
                dtype = choose_step_dtype(variable.dtype)
                slots[name] = asarray(value, dtype=dtype, device=variable.backend)
                if slots[name].shape != variable.shape:
                    raise ShapeError(
                        f"set_state: {short_repr(name)} of variable {variable.name!r} has shape "
                        f"{slots[name].shape}; the variable has {variable.shape}"
                    )
            restored[variable] = steps, slots
        if "loss_scale" in known:
            scale = self.loss_scale or LossScale()
            scale.set_state(state["loss_scale"])
            self.loss_scale = scale
        # The variables of the slots stay the same, for programs that have been traced with them.
        for variable, (steps, slots) in restored.items():
            state = self._states.setdefault(variable, VariableState())
            state.steps = steps
            for name in state.keys() - slots.keys():
                slots[name] = self._find_group_optimizer(variable)._initial_slot(variable, name)
            for name, value in slots.items():
                if name in state:
                    state[name].assign(value)
                else:
                    state[name] = _make_slot(variable, name, value)
        self.iterations = iterations

    def discard_state(self, variables: Collection[Variable]) -> None:
        """Free the state of variables: the next step of each begins anew.

        >>> w = plugrad.Variable([1.0])
        >>> momentum = plugrad.optimizers.Momentum(0.1)
        >>> _ = momentum.minimize(lambda: plugrad.sum(w * w), [w])
        >>> momentum.discard_state([w])
        >>> momentum.get_state([w])
        {'iterations': 1, 'variables': [{'steps': 0}]}
        """
        for variable in check_variables(variables, "discard_state"):
            self._states.pop(variable, None)

    def _begin_step(
        self, groups: Sequence[tuple[int, Variable, Sequence[VariableState]]]
    ) -> list[tuple[float, ...]]:
        """Return the coefficients for each group of variables, and count the step.

        It runs when the coefficients are needed: in a traced program, once in each call. The counters change last,
        so they remain as they are if an error is raised.

        Args:
            groups: for each, how often its variables have come in this step, the first of them, and their states. All
                have taken equally many steps with the same coefficients.
        """
        rate = self.rate
        numbers: list[tuple[float, ...]] = []
        for turn, first, states in groups:
            member = self._find_group_optimizer(first) if self._groups else self
            is_shared = member.learning_rate is self.learning_rate  # a schedule is asked once
            own = rate if is_shared else member.rate
            numbers.append(member._step_coefficients(states[0].steps + turn, own))
        # A variable that comes twice is set twice, to the greater number last.
        owners: list[Optimizer | VariableState] = [self]
        names, turns = ["iterations"], [1]
        for turn, _, states in groups:
            owners += states
            names += ["steps"] * len(states)
            turns += [turn] * len(states)
        before = [*map(getattr, owners, names)]
        after = [*map(add, before, turns)]
        log = active_host_log.get()
        if log is not None:
            log.undo.append(partial(run_uninterrupted, map(setattr, owners, names, before)))
        run_uninterrupted(map(setattr, owners, names, after))
        return numbers

    def _find_group_optimizer(self, variable: Variable) -> Optimizer:
        """Return the optimizer that computes a variable's coefficients: this one, or its group's."""
        group = self._groups.get(variable)
        if group is None:
            return self
        for name in group.shared_names:
            setattr(group.optimizer, name, getattr(self, name))
        group.optimizer.iterations = self.iterations
        return group.optimizer

    def _apply_updates(
        self,
        update_rule: UpdateStep,
        updates: list[VariableUpdate],
        slot_names: tuple[str, ...],
        compute_coefficients: Callable[[], tuple[float, ...]],
        log: HostLog,
        is_finite: Tensor | None,
    ) -> None:
        """Update variables of one dtype and device and their slots, and count the step with the first of them.

        Where a condition is False, all of them get the values that they have.
        """
        update = make_update(update_rule, compute_coefficients, updates[0][0])
        for batch in iter_batches(updates):
            variables, gradients, states = zip(*batch, strict=True)
            slots = [[state[name] for state in states] for name in slot_names]
            updated = update([variables, gradients, *slots])
            targets = [*chain(variables, *slots)]
            values = [*chain.from_iterable(updated)]
            if is_finite is not None:
                values = [where(is_finite, y, x) for x, y in zip(targets, values, strict=True)]
            assign_all(targets, values, log)

    @property
    @abstractmethod
    def _update_rule(self) -> UpdateStep:
        """The update rule: a kernel of `plugrad.kernels.optimizers`, or a function of ops."""

    @abstractmethod
    def _step_coefficients(self, step_number: int, learning_rate: float) -> tuple[float, ...]:
        """Return the coefficients for step number `step_number` of a variable."""

    def _get_state(self, variable: Variable, slot_names: tuple[str, ...]) -> VariableState:
        """Return the state of a variable, creating missing slots with their initial values."""
        state = self._states.get(variable)
        if state is None:
            state = self._states[variable] = VariableState()
        for name in slot_names:
            if name not in state:
                value = self._find_group_optimizer(variable)._initial_slot(variable, name)
                state[name] = _make_slot(variable, name, value)
        return state

    def _slot_names(self) -> tuple[str, ...]:
        """Return the names of the slots in a variable's state."""
        return ()

    def _initial_slot(self, variable: Variable, slot_name: str) -> Tensor:
        """Return the initial value of a slot."""
        # Not zeros_like: the first trace would compute the value of the variable, and what it draws.
        dtype = choose_step_dtype(variable.dtype)
        return zeros(variable.shape, dtype=dtype, device=variable.backend)

    def _check_coefficients(
        self, *, lower_bound: float, upper_bound: float = float("inf"), **coefficients: float
    ) -> None:
        """Raise if a coefficient is not a number in ``[lower_bound, upper_bound)``."""
        for name, value in coefficients.items():
            if not lower_bound <= check_real(value, self._name, name) < upper_bound:
                limits = (
                    f"in [{lower_bound}, {upper_bound})"
                    if upper_bound < float("inf")
                    else f"{lower_bound} or more"
                )
                raise ArgumentValueError(f"{self._name}: {name}={value} must be {limits}")


def _transform_gradients(
    pairs: Sequence[tuple[Variable, Tensor]], transforms: Sequence[GradientTransform]
) -> Sequence[tuple[Variable, Tensor]]:
    """Return the pairs with transformed gradients.

    Raises:
        ArgumentError: a transform did not return as many tensors.
        ShapeError, DTypeError: it changed the shape of a gradient, or its dtype to another than its variable's.
    """
    gradients = [gradient for _, gradient in pairs]
    for transform in transforms:
        gradients = check_transformed_gradients(transform, transform(gradients), len(pairs))
    for (variable, _), gradient in zip(pairs, gradients, strict=True):
        check_gradient(variable, gradient)
    return [(variable, gradient) for (variable, _), gradient in zip(pairs, gradients, strict=True)]


def _make_slot(variable: Variable, slot_name: str, initial_value: Tensor) -> Variable:
    """Return a slot of a variable."""
    return Variable(
        initial_value,
        trainable=False,
        name=f"{variable.name}.{slot_name}" if variable.name else slot_name,
    )


def _list_constructor_arguments(optimizer_class: type[Optimizer]) -> list[str]:
    """Return the names of an optimizer's constructor arguments, each of which is an attribute."""
    from inspect import signature  # not needed by programs without groups

    return list(signature(optimizer_class).parameters)
