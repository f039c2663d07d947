"""Plans: the values that a recorded call keeps for the backward pass, and how gradients are pulled back through it.

A plan is made once for each kernel and set of differentiated inputs, from what `plugrad.gradient` declares.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from plugrad.errors import ArgumentError, DTypeError, GradientNotFound, RegistrationError
from plugrad.registry.gradients import RegisteredGradient
from plugrad.tape.nodes import add
from plugrad.tensor.tensor import Tensor

if TYPE_CHECKING:
    from plugrad.contract.kernel import Kernel
    from plugrad.tape.nodes import Call, Gradients

Rule: TypeAlias = Callable[..., Any]
"""Its parameters name what it needs; it returns a tensor, or None for "nothing"."""
GradFunc: TypeAlias = Callable[[Any, list[Any], Mapping[str, Any]], Mapping[str, Any]]


new: Final = object.__new__

EVERY_INPUT: Final[Sequence[int]] = range(sys.maxsize)
"""The positions to keep if all inputs are kept, regardless of their number."""


class _NoPlan:
    """The plan for a kernel without a gradient: it saves nothing, and raises if a gradient is requested."""

    saved_inputs: Sequence[int] = ()
    needs_output = False
    needs_dtypes = False
    keeps_something = False

    def __init__(self, kernel: Kernel[..., Any]) -> None:
        """Make the plan for a kernel."""
        self.kernel = kernel

    def accumulate_vjp(
        self,
        gradients: Gradients,
        call: Call,
        dy: Any,
        wanted: Sequence[bool] | None,
        linked: bool,
    ) -> None:
        """Raise `GradientNotFound`: the kernel has no gradient."""
        raise GradientNotFound(
            f"kernel {self.kernel.name!r} lies between the result and a differentiated input but does not have a "
            "gradient; declare one with register_gradient, or cut the path with stop_gradient"
        )


@cache
def missing_gradient(kernel: Kernel[..., Any]) -> RegisteredGradient:
    """Return a placeholder for the gradient of a kernel that has none; it raises when it is used."""
    return RegisteredGradient(kernel.name, lambda kernel, positions: _NoPlan(kernel))


Getter: TypeAlias = Callable[["Call", Any, bool], Any]
"""(call, dy, linked) -> a value that a rule named, or the rule's result."""


class Application(NamedTuple):
    """The gradient rule of one input, and how it gets the values that it needs besides `dy`."""

    input: int
    """The position of the input."""
    rule: Rule
    getters: tuple[Getter, ...] | None
    """How to get the values that the rule needs; None for the two frequent forms that do not need getters."""
    place: int | None = None
    """The slot of the one saved input that the rule needs after `dy`; None if it needs only `dy`."""
    position: int = 0
    """The position of that input."""


class RulePlan:
    """The rules of the differentiated inputs, ready to be applied to a call."""

    # The tape reads these for every call: slots are faster than the fields of a named tuple.
    __slots__ = (
        *("keeps_something", "kernel", "needs_dtypes", "needs_output", "rules", "saved_inputs"),
    )

    def __init__(
        self,
        kernel: Kernel[..., Any],
        rules: tuple[Application, ...],
        saved_inputs: Sequence[int],
        needs_output: bool,
        needs_dtypes: bool,
    ) -> None:
        """Create a plan; `Plan` says what the arguments are."""
        self.kernel = kernel
        self.rules = rules
        self.saved_inputs = saved_inputs
        self.needs_output = needs_output
        self.needs_dtypes = needs_dtypes
        self.keeps_something = bool(saved_inputs) or needs_output or needs_dtypes

    def accumulate_vjp(
        self,
        gradients: Gradients,
        call: Call,
        dy: Any,
        wanted: Sequence[bool] | None,
        linked: bool,
    ) -> None:
        """Apply the rules of the wanted inputs, and sum each gradient to its input's shape."""
        parents, shapes = call.parents, call.shapes
        for index, rule, getters, place, position in self.rules:
            parent = parents[index]
            if parent is None or (wanted is not None and not wanted[index]):
                continue
            if getters is not None:
                gradient = rule(*[get(call, dy, linked) for get in getters])
            elif place is None:
                gradient = rule(dy)
            else:
                x = new(Tensor)  # Tensor(…), without calling __init__
                x.array = call.saved[place]
                x.backend = call.backend
                x.node = parents[position] if linked else None
                gradient = rule(dy, x)
            if gradient is not None:
                if gradient.array.shape != shapes[index]:
                    gradient = call.sum_to_input(index, gradient)
                known = gradients.get(parent)  # as in `add`
                gradients[parent] = gradient if known is None else known + gradient


class ListPlan(RulePlan):
    """The plan for a kernel that takes a list of inputs: one rule, which returns a list of gradients."""

    __slots__ = ()

    def accumulate_vjp(
        self,
        gradients: Gradients,
        call: Call,
        dy: Any,
        wanted: Sequence[bool] | None,
        linked: bool,
    ) -> None:
        """Apply the rule."""
        ((_, rule, getters, *_),) = self.rules
        found = rule(*[get(call, dy, linked) for get in getters or ()])
        for index, gradient in enumerate(found):
            if wanted is None or wanted[index]:
                add(gradients, call.parents[index], call.fit_to_input(index, gradient))


def make_application(
    rule: Rule, needs: Sequence[str], kernel: Kernel[..., Any], index: int, saved: Sequence[int]
) -> Application:
    """Return the `Application` of a rule, given the values it needs and the inputs that calls save."""
    is_list_plan = kernel.is_variadic
    if list(needs) == ["dy"] and not is_list_plan:
        return Application(index, rule, None)
    plain = kernel.inputs[: -1 if kernel.takes_list else None]
    if len(needs) == 2 and needs[0] == "dy" and needs[1] in plain:
        position = kernel.inputs.index(needs[1])
        if needs[1] not in kernel.optional_inputs:
            return Application(index, rule, None, saved.index(position), position)
    return Application(index, rule, tuple(_make_getter(kernel, need, saved) for need in needs))


def _make_getter(kernel: Kernel[..., Any], need: str, saved: Sequence[int]) -> Getter:
    """Return a function of a call of `kernel` that gets the value a rule names `need`."""
    if need == "dy":
        return lambda call, dy, linked: dy
    if need in ("out", "outs"):
        return lambda call, dy, linked: call.output(linked)
    if need == "absent":
        return lambda call, dy, linked: dy.absent
    if need == "attrs":
        return lambda call, dy, linked: dict(call.attrs)
    if need in kernel.attributes:
        return lambda call, dy, linked: call.attrs[need]
    if kernel.is_variadic and need.endswith("_spec"):
        return lambda call, dy, linked: [call.spec(i) for i in range(len(call.shapes))]
    position = kernel.inputs.index("dy" if need == "dy_input" else need.removesuffix("_spec"))
    if need.endswith("_spec"):
        return lambda call, dy, linked: call.spec(position)
    if kernel.takes_list and position == len(kernel.inputs) - 1:
        return lambda call, dy, linked: [
            _saved_input(call, i, i, linked) for i in range(position, len(call.shapes))
        ]
    place = saved.index(position)
    return lambda call, dy, linked: _saved_input(call, place, position, linked)


def _saved_input(call: Call, place: int, position: int, linked: bool) -> Tensor | None:
    """Return a saved input as a tensor, or None if it was absent."""
    array = call.saved[place]
    node = call.parents[position] if linked else None
    return None if array is None else Tensor(array, call.backend, node)


class FunctionPlan:
    """The plan for a `GradientConfig`: a gradient function, and the inputs and outputs to save for it."""

    needs_dtypes = True
    keeps_something = True

    def __init__(
        self,
        kernel: Kernel[..., Any],
        grad_func: GradFunc,
        inputs_to_save: tuple[int, ...],
        outputs_to_save: tuple[bool, ...],
    ) -> None:
        """Make the plan for a kernel."""
        self.kernel = kernel
        self.grad_func = grad_func
        self.inputs_to_save = inputs_to_save
        self.outputs_to_save = outputs_to_save
        self.saved_inputs: Sequence[int] = sorted(set(inputs_to_save))
        self.needs_output = any(outputs_to_save)

    def accumulate_vjp(
        self,
        gradients: Gradients,
        call: Call,
        dy: Any,
        wanted: Sequence[bool] | None,
        linked: bool,
    ) -> None:
        """Call the function, and then the thunks of the wanted inputs."""
        outputs = call.output(linked) if self.needs_output else []
        outputs = outputs if isinstance(outputs, list) else [outputs]
        kept = [
            out for out, is_saved in zip(outputs, self.outputs_to_save, strict=False) if is_saved
        ]
        inputs = [
            _saved_input(call, self.saved_inputs.index(position), position, linked)
            for position in self.inputs_to_save
        ]
        thunks = self.grad_func(dy, [*inputs, *kept], dict(call.attrs))
        wanted = wanted or [parent is not None for parent in call.parents]
        for index, is_wanted in enumerate(wanted):
            if is_wanted:
                gradient = call.fit_to_input(index, self._check_gradient(call, index, thunks))
                add(gradients, call.parents[index], gradient)

    def _check_gradient(self, call: Call, index: int, thunks: Mapping[str, Any]) -> Tensor:
        """Return the gradient of one input, or raise: results of user-supplied functions are checked."""
        name = str(index) if self.kernel.is_variadic else self.kernel.input_name(index)
        where = f"the gradient function of {self.kernel.name}"
        if name not in thunks:
            raise RegistrationError(
                f"{where} does not have an entry for input {name!r}; it has {sorted(thunks)}"
            )
        entry = thunks[name]
        gradient = entry() if callable(entry) else entry
        if not isinstance(gradient, Tensor):
            raise ArgumentError(
                f"{where} returned a {type(gradient).__name__} for input {name!r}, not a tensor"
            )
        expected = call.spec(index)
        if expected is not None and gradient.dtype is not expected.dtype:
            raise DTypeError(
                f"{where} returned {gradient.dtype} for input {name!r}, which is {expected.dtype}"
            )
        return gradient
