"""Plans: the values that a recorded call keeps for the backward pass, and how gradients are pulled back through it.

A plan is made once for each kernel and set of differentiated inputs, from what `plugrad.gradient` declares.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeAlias

from plugrad.errors import ArgumentError, DTypeError, GradientNotFound, RegistrationError
from plugrad.registry.gradients import RegisteredGradient
from plugrad.tape.nodes import accumulate_gradient
from plugrad.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from plugrad.contract.kernel import Kernel
    from plugrad.tape.nodes import Call, GradientOfNode

GradientRule: TypeAlias = Callable[..., Any]
"""A function whose parameters name what it needs; it returns the gradient of one input, or None if that is zero."""
GradFunc: TypeAlias = Callable[[Any, list[Any], Mapping[str, Any]], Mapping[str, Any]]
"""(dy, saved, attrs) -> the gradient of each input by name, or a function that returns it."""

SavedValueGetter: TypeAlias = Callable[["Call", Any, bool], Any]
"""(call, dy, create_graph) -> a value that a rule's parameter names."""
VjpFunction: TypeAlias = Callable[
    ["Call", Any, "Sequence[bool] | None", bool], Iterable[tuple[int, Tensor | None]]
]
"""(call, dy, needs_input_grad, create_graph) -> the gradients of several inputs, each after its input's position."""
new_object: Final = object.__new__
"""Return an object of a class without calling the class, which takes longer."""

ALL_INPUT_POSITIONS: Final[Sequence[int]] = range(sys.maxsize)
"""The positions of the inputs to save for a kernel that takes a list, of any length."""


class RuleApplication(NamedTuple):
    """The gradient rule of one input, and how to get the values it needs besides `dy`; or a `VjpFunction`."""

    input_position: int | None
    """The position of the differentiated input; None if the rule is a `VjpFunction`."""
    rule: GradientRule
    """The rule, or the `VjpFunction`."""
    value_getters: tuple[SavedValueGetter, ...] | None = None
    """How to get the values that the rule needs; None for the two frequent forms that do not need any."""
    saved_index: int | None = None
    """The index, among the call's saved inputs, of the one that the rule needs after `dy`; None for only `dy`."""
    saved_position: int = 0
    """The position, among all inputs, of the saved input that the rule needs."""


class GradientPlan:
    """The gradient rules of a call's differentiated inputs, and the values that they need."""

    # The tape reads these for every call: slots are faster than the fields of a named tuple.
    __slots__ = (
        *("keeps_all_inputs", "saves_values", "kernel", "needs_dtypes", "needs_output"),
        *("rules", "saved_inputs"),
    )

    def __init__(
        self,
        kernel: Kernel[..., Any],
        *rules: RuleApplication,
        saved_inputs: Sequence[int] = (),
        needs_output: bool = False,
        needs_dtypes: bool = False,
    ) -> None:
        """Create a plan."""
        self.kernel = kernel
        self.rules = rules
        self.saved_inputs = saved_inputs
        self.needs_output = needs_output
        self.needs_dtypes = needs_dtypes
        self.saves_values = bool(saved_inputs) or needs_output or needs_dtypes
        keeps_more = needs_output or needs_dtypes or kernel.takes_list
        self.keeps_all_inputs = not keeps_more and 0 < kernel.input_count == len(saved_inputs)

    def accumulate_vjp(
        self,
        gradients: GradientOfNode,
        call: Call,
        dy: Any,
        needs_input_grad: Sequence[bool] | None,
        create_graph: bool,
    ) -> None:
        """Add the gradients of the inputs that need one, each summed to its input's shape."""
        parents, shapes = call.parents, call.shapes
        for index, rule, value_getters, place, position in self.rules:
            if index is None:
                for each, gradient in rule(call, dy, needs_input_grad, create_graph):
                    if needs_input_grad is None or needs_input_grad[each]:
                        accumulate_gradient(
                            gradients, parents[each], call.fit_to_input(each, gradient)
                        )
                continue
            parent = parents[index]
            if parent is None or (needs_input_grad is not None and not needs_input_grad[index]):
                continue
            if value_getters is not None:
                gradient = rule(*[get(call, dy, create_graph) for get in value_getters])
            elif place is None:
                gradient = rule(dy)
            else:
                x = new_object(Tensor)  # Tensor(…), without calling __init__
                x.array = call.saved[place]
                x.backend = call.backend
                x.node = parents[position] if create_graph else None
                gradient = rule(dy, x)
            if gradient is not None:
                if gradient.array.shape != shapes[index]:
                    gradient = call.fit_to_input(index, gradient)
                known = gradients.get(parent)  # as in `accumulate_gradient`
                gradients[parent] = gradient if known is None else known + gradient


@cache
def make_missing_gradient(kernel: Kernel[..., Any]) -> RegisteredGradient:
    """Return a placeholder for the gradient of a kernel that has none; it raises when it is used."""

    def raise_gradient_not_found(*_: Any) -> NoReturn:
        raise GradientNotFound(
            f"kernel {kernel.name!r} lies between the result and a differentiated input but does not have a "
            "gradient; declare one with register_gradient, or cut the path with stop_gradient"
        )

    plan = GradientPlan(kernel, RuleApplication(None, raise_gradient_not_found))
    return RegisteredGradient(kernel.name, lambda kernel, positions: plan)


def make_rule_application(
    rule: GradientRule,
    needed_values: Sequence[str],
    kernel: Kernel[..., Any],
    input_position: int,
    saved_inputs: Sequence[int],
) -> RuleApplication:
    """Return the `RuleApplication` of a rule, given the values it needs and the inputs that calls save."""
    value_getters = tuple(
        [_make_saved_value_getter(kernel, need, saved_inputs) for need in needed_values]
    )
    if (
        kernel.takes_list and input_position == len(kernel.inputs) - 1
    ):  # the rule returns a list of gradients
        return RuleApplication(
            None,
            lambda call, dy, _, create_graph: enumerate(
                rule(*[g(call, dy, create_graph) for g in value_getters]), input_position
            ),
        )
    if list(needed_values) == ["dy"]:
        return RuleApplication(input_position, rule)
    plain = kernel.inputs[: -1 if kernel.takes_list else None]
    if len(needed_values) == 2 and needed_values[0] == "dy" and needed_values[1] in plain:
        position = kernel.inputs.index(needed_values[1])
        if needed_values[1] not in kernel.optional_inputs:
            return RuleApplication(
                input_position, rule, None, saved_inputs.index(position), position
            )
    return RuleApplication(input_position, rule, value_getters)


def _make_saved_value_getter(
    kernel: Kernel[..., Any], value_name: str, saved_inputs: Sequence[int]
) -> SavedValueGetter:
    """Return a function of a call of `kernel` that gets the value a rule names `value_name`."""
    if value_name == "dy":
        return lambda call, dy, create_graph: dy
    if value_name in ("out", "outs"):
        return lambda call, dy, create_graph: call.output_tensors(create_graph)
    if value_name == "absent":
        return lambda call, dy, create_graph: dy.absent
    if value_name == "attrs":
        return lambda call, dy, create_graph: dict(call.attrs)
    if value_name in kernel.attributes:
        return lambda call, dy, create_graph: call.attrs[value_name]
    position = kernel.inputs.index(
        "dy" if value_name == "dy_input" else value_name.removesuffix("_spec")
    )
    is_list = kernel.takes_list and position == len(kernel.inputs) - 1
    if value_name.endswith("_spec"):
        if is_list:
            return lambda call, dy, create_graph: [
                call.spec(i) for i in range(position, len(call.shapes))
            ]
        return lambda call, dy, create_graph: call.spec(position)
    if is_list:
        return lambda call, dy, create_graph: [
            _get_saved_input(call, i, i, create_graph) for i in range(position, len(call.shapes))
        ]
    place = saved_inputs.index(position)
    return lambda call, dy, create_graph: _get_saved_input(call, place, position, create_graph)


def _get_saved_input(
    call: Call, saved_index: int, input_position: int, create_graph: bool
) -> Tensor | None:
    """Return a saved input as a tensor, or None if it was absent."""
    array = call.saved[saved_index]
    node = call.parents[input_position] if create_graph else None
    return None if array is None else Tensor(array, call.backend, node)


def make_function_plan(
    kernel: Kernel[..., Any],
    grad_func: GradFunc,
    inputs_to_save: Sequence[int],
    outputs_to_save: Sequence[bool],
) -> GradientPlan:
    """Return the plan for a `GradientConfig`: a gradient function, and the inputs and outputs to save for it."""
    saved = sorted(set(inputs_to_save))
    needs_output = any(outputs_to_save)

    def compute_vjp(
        call: Call, dy: Any, needs_input_grad: Sequence[bool] | None, create_graph: bool
    ) -> Iterator[tuple[int, Tensor]]:
        outputs = call.output_tensors(create_graph) if needs_output else []
        outputs = outputs if isinstance(outputs, list) else [outputs]
        kept = [out for out, is_saved in zip(outputs, outputs_to_save, strict=False) if is_saved]
        inputs = [_get_saved_input(call, saved.index(i), i, create_graph) for i in inputs_to_save]
        thunks = grad_func(dy, [*inputs, *kept], dict(call.attrs))
        for index, parent in enumerate(call.parents):
            if parent is not None and (needs_input_grad is None or needs_input_grad[index]):
                yield index, _check_gradient(call, index, thunks)

    rule = RuleApplication(None, compute_vjp)
    return GradientPlan(
        kernel, rule, saved_inputs=saved, needs_output=needs_output, needs_dtypes=True
    )


def _check_gradient(call: Call, input_position: int, gradient_thunks: Mapping[str, Any]) -> Tensor:
    """Return the gradient of one input, or raise: results of user-supplied functions are checked."""
    kernel = call.gradient_plan.kernel
    name = str(input_position) if kernel.is_variadic else kernel.input_name(input_position)
    where = f"the gradient function of {kernel.name}"
    if name not in gradient_thunks:
        raise RegistrationError(
            f"{where} does not have an entry for input {name!r}; it has {sorted(gradient_thunks)}"
        )
    entry = gradient_thunks[name]
    gradient = entry() if callable(entry) else entry
    if not isinstance(gradient, Tensor):
        raise ArgumentError(
            f"{where} returned a {type(gradient).__name__} for input {name!r}, not a tensor"
        )
    expected = call.spec(input_position)
    if expected is not None and gradient.dtype is not expected.dtype:
        raise DTypeError(
            f"{where} returned {gradient.dtype} for input {name!r}, which is {expected.dtype}"
        )
    return gradient
