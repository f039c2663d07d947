"""Gradients: the backward definition of a kernel, one rule per input.

A rule *names what it needs* through its parameters:

* ``dy``: the gradient of the output (a list of them for a kernel with several outputs);
* ``out`` or ``outs``: the output, or the list of outputs;
* an input's name, such as ``x``;
* an input's name with ``_spec``: only its shape and dtype, which costs no memory; for a kernel that takes a list, the list of
  them (it cannot name the inputs themselves);
* an attribute's name, or ``attrs`` for all of them;
* ``dy_input``: the input called ``dy``, for the kernels that have one because they are gradients themselves.

The tape keeps what the rules of the *differentiated* inputs name, and nothing else. This is the one piece of
introspection in plugrad. Rules are written with ops or kernels, so they run on every backend and can be differentiated.
The tape sums each gradient to its input's shape, so rules need not undo broadcasting.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from plugrad import registry
from plugrad.errors import ArgumentError, DTypeError, GradientNotFound, RegistrationError
from plugrad.kernel import KERNELS, Kernel
from plugrad.tensor import Tensor

if TYPE_CHECKING:
    from plugrad.tape import Call, Pulled

Rule: TypeAlias = Callable[..., Any]  # its parameters are whatever it needs; it returns a tensor, or None for "nothing"
GradFunc: TypeAlias = Callable[[Any, list[Any], Mapping[str, Any]], Mapping[str, Any]]


class Plan(Protocol):
    """What a call must keep for the inputs that are differentiated, and how to pull a gradient back."""

    @property
    def kernel(self) -> Kernel[..., Any]:
        """The kernel that is called."""
        ...

    @property
    def saved_inputs(self) -> tuple[int, ...]:
        """The positions of the inputs to keep."""
        ...

    @property
    def needs_output(self) -> bool:
        """Whether to keep the output."""
        ...

    @property
    def needs_dtypes(self) -> bool:
        """Whether to keep the inputs' dtypes."""
        ...

    @property
    def keeps_something(self) -> bool:
        """Whether any of these is asked for."""
        ...

    def pull(self, call: Call, dy: Any, wanted: Sequence[bool] | None, linked: bool) -> Pulled:
        """Return (position, gradient) for the wanted inputs."""
        ...


class Gradient:
    """The gradient of one kernel, in the form that the tape uses.

    `planner` makes the plan for the positions of the differentiated inputs, or None if these contribute nothing; the tape
    remembers plans in `plans`, by one bit for each input.
    """

    def __init__(self, kernel_name: str, planner: Callable[[Kernel[..., Any], Sequence[int]], Plan | None]) -> None:
        """Create a gradient without plans yet."""
        self.kernel_name = kernel_name
        self.planner = planner
        self.plans: dict[int, Plan | None] = {}


@dataclass(frozen=True)
class _NoPlan:
    """For a kernel without gradient: keeps nothing, and raises if a gradient is asked for."""

    kernel: Kernel[..., Any]
    saved_inputs: tuple[int, ...] = ()
    needs_output: bool = False
    needs_dtypes: bool = False
    keeps_something: bool = False

    def pull(self, call: Call, dy: Any, wanted: Sequence[bool] | None, linked: bool) -> Pulled:
        """Raise."""
        raise GradientNotFound(
            f"kernel {self.kernel.name!r} lies between the result and a differentiated input but has no gradient; "
            "declare one with register_gradient, or cut the path with stop_gradient"
        )


@cache
def missing_gradient(kernel: Kernel[..., Any]) -> Gradient:
    """Return the gradient of a kernel that has none."""
    return Gradient(kernel.name, lambda kernel, positions: _NoPlan(kernel))


# --- the table form ----------------------------------------------------------------------------------------------------


Getter: TypeAlias = Callable[["Call", Any, bool], Any]  # (call, dy, linked) -> what a rule named, or what it returned


@dataclass(frozen=True)
class RulePlan:
    """The rules of the differentiated inputs, ready to be applied to a call."""

    kernel: Kernel[..., Any]
    rules: tuple[tuple[int, Getter], ...]
    saved_inputs: tuple[int, ...]
    needs_output: bool
    needs_dtypes: bool
    keeps_something: bool

    def pull(self, call: Call, dy: Any, wanted: Sequence[bool] | None, linked: bool) -> Pulled:
        """Apply the rules of the wanted inputs."""
        if wanted is None:
            return [(index, apply(call, dy, linked)) for index, apply in self.rules]
        return [(index, apply(call, dy, linked)) for index, apply in self.rules if wanted[index]]


class ListPlan(RulePlan):
    """The one rule of a kernel that takes a list of inputs; it returns a list of gradients."""

    def pull(self, call: Call, dy: Any, wanted: Sequence[bool] | None, linked: bool) -> Pulled:
        """Apply the rule."""
        return [pulled for _, apply in self.rules for pulled in enumerate(apply(call, dy, linked))]


def _applied(rule: Rule, needs: Sequence[str], kernel: Kernel[..., Any], saved: Sequence[int]) -> Getter:
    """Return the function that applies a rule to a call; the two most frequent forms do without a list."""
    getters = [_getter(kernel, need, saved) for need in needs]
    if list(needs) == ["dy"]:
        return lambda call, dy, linked: rule(dy)
    if len(needs) == 2 and needs[0] == "dy" and needs[1] in kernel.inputs and not kernel.is_variadic:
        position = kernel.inputs.index(needs[1])
        place = saved.index(position)
        return lambda call, dy, linked: rule(
            dy, Tensor(call.saved[place], call.backend, call.parents[position] if linked else None)
        )
    return lambda call, dy, linked: rule(*[get(call, dy, linked) for get in getters])


def _getter(kernel: Kernel[..., Any], need: str, saved: Sequence[int]) -> Getter:
    """Return the function that gets, from a call of `kernel`, what a rule calls `need`."""
    if need == "dy":
        return lambda call, dy, linked: dy
    if need in ("out", "outs"):
        return lambda call, dy, linked: call.output(linked)
    if need == "attrs":
        return lambda call, dy, linked: call.attrs
    if need in kernel.attributes:
        return lambda call, dy, linked: call.attrs[need]
    if kernel.is_variadic:
        return lambda call, dy, linked: [call.spec(i) for i in range(len(call.shapes))]
    position = kernel.inputs.index("dy" if need == "dy_input" else need.removesuffix("_spec"))
    if need.endswith("_spec"):
        return lambda call, dy, linked: call.spec(position)
    place = saved.index(position)
    return lambda call, dy, linked: Tensor(call.saved[place], call.backend, call.parents[position] if linked else None)


def gradient(kernel: Kernel[..., Any], *, replace: bool = False, **rules: Rule) -> None:
    """Declare the gradient of `kernel`: one rule per input, evaluated only when that input needs it.

    >>> import plugrad
    >>> from plugrad.extend import Spec, gradient, kernel
    >>> @kernel("Cubed", family="example")
    ... def cubed(x: Spec) -> Spec:
    ...     return x
    >>> gradient(cubed, x=lambda dy, x: dy * 3.0 * x * x)

    Raises:
        RegistrationError: a rule names an unknown input, or needs something the kernel does not have, or the kernel has
            a gradient already and `replace` is False.
    """
    registry.set_gradient(Gradient(kernel.name, _table_planner(kernel, rules)), replace=replace)


def _table_planner(kernel: Kernel[..., Any], rules: Mapping[str, Rule]) -> Callable[[Kernel[..., Any], Sequence[int]], Plan]:
    known = {"dy", "out", "outs", "attrs", *kernel.attributes, *(f"{n}_spec" for n in kernel.inputs)}
    known |= set() if kernel.is_variadic else {"dy_input" if n == "dy" else n for n in kernel.inputs}
    needs = {name: tuple(inspect.signature(rule).parameters) for name, rule in rules.items()}
    unknown = (rules.keys() - set(kernel.inputs)) | ({n for ns in needs.values() for n in ns} - known)
    if unknown:
        raise RegistrationError(f"gradient of {kernel.name}: unknown {sorted(unknown)}; known are {sorted(known)}")


    def planner(kernel: Kernel[..., Any], positions: Sequence[int]) -> Plan:
        active = list(rules) if kernel.is_variadic else [kernel.inputs[i] for i in positions if kernel.inputs[i] in rules]
        named = {"dy" if need == "dy_input" else need for name in active for need in needs[name] if need != "dy"}
        saved = tuple(i for i, name in enumerate(kernel.inputs) if name in named)
        table = tuple((kernel.inputs.index(name), _applied(rules[name], needs[name], kernel, saved)) for name in active)
        needs_output, needs_dtypes = bool(named & {"out", "outs"}), any(need.endswith("_spec") for need in named)
        plan_type = ListPlan if kernel.is_variadic else RulePlan
        return plan_type(kernel, table, saved, needs_output, needs_dtypes, bool(saved) or needs_output or needs_dtypes)

    return planner


def not_differentiable(*kernels: Kernel[..., Any]) -> None:
    """Declare that kernels contribute nothing to a gradient: their outputs are whole numbers, flags, or constant pieces."""
    for kernel in kernels:
        registry.set_gradient(Gradient(kernel.name, lambda kernel, positions: None))


# --- the explicit form ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FunctionPlan:
    """A gradient function, with the inputs and outputs that it asked to be saved."""

    kernel: Kernel[..., Any]
    grad_func: GradFunc
    saved_inputs: tuple[int, ...]
    outputs_to_save: tuple[bool, ...]
    needs_dtypes: bool = True
    keeps_something: bool = True

    @property
    def needs_output(self) -> bool:
        """Whether an output is saved."""
        return any(self.outputs_to_save)

    def pull(self, call: Call, dy: Any, wanted: Sequence[bool] | None, linked: bool) -> Pulled:
        """Call the function, and then the thunks of the wanted inputs."""
        outputs = call.output(linked) if self.needs_output else []
        outputs = outputs if isinstance(outputs, list) else [outputs]
        kept = [out for out, is_saved in zip(outputs, self.outputs_to_save, strict=False) if is_saved]
        nodes = call.parents if linked else (None,) * len(call.parents)
        inputs = [Tensor(a, call.backend, nodes[i]) for i, a in zip(self.saved_inputs, call.saved, strict=True)] if self.saved_inputs else []
        thunks = self.grad_func(dy, [*inputs, *kept], call.attrs)
        wanted = wanted or [parent is not None for parent in call.parents]
        return [(index, self._checked(call, index, thunks)) for index, is_wanted in enumerate(wanted) if is_wanted]

    def _checked(self, call: Call, index: int, thunks: Mapping[str, Any]) -> Tensor:
        """Return the gradient of one input, or raise: what a stranger returns is checked."""
        name = str(index) if self.kernel.is_variadic else self.kernel.inputs[index]
        where = f"the gradient function of {self.kernel.name}"
        if name not in thunks:
            raise RegistrationError(f"{where} has no entry for input {name!r}; it has {sorted(thunks)}")
        gradient = thunks[name] if isinstance(thunks[name], Tensor) else thunks[name]()
        if not isinstance(gradient, Tensor):
            raise ArgumentError(f"{where} returned a {type(gradient).__name__} for input {name!r}, not a tensor")
        if gradient.dtype is not call.spec(index).dtype:
            raise DTypeError(f"{where} returned {gradient.dtype} for input {name!r}, which is {call.spec(index).dtype}")
        return gradient


@dataclass(frozen=True)
class GradientConfig:
    """The explicit form of a gradient, for a kernel known by name.

    ``grad_func(dy, saved, attrs)`` returns a mapping from input name to a tensor, or to a function without arguments that
    returns one and is called only if that input needs it. For a kernel that takes a list the names are ``"0"``, ``"1"`` …
    `saved` holds the inputs named in `inputs_to_save`, then the outputs marked in `outputs_to_save`.
    """

    kernel_name: str
    grad_func: GradFunc
    inputs_to_save: tuple[str, ...] = ()
    outputs_to_save: tuple[bool, ...] = ()

    def planner(self, kernel: Kernel[..., Any], positions: Sequence[int]) -> Plan:
        """Return the plan of a call; it saves the same things whichever inputs are differentiated."""
        if unknown := set(self.inputs_to_save) - set(kernel.inputs):
            raise RegistrationError(f"gradient of {kernel.name}: inputs_to_save has {sorted(unknown)}; the inputs are {list(kernel.inputs)}")
        saved = tuple(positions) if kernel.is_variadic and self.inputs_to_save else tuple(map(kernel.inputs.index, self.inputs_to_save))
        return FunctionPlan(kernel, self.grad_func, saved, self.outputs_to_save)


def register_gradient(config: GradientConfig | Kernel[..., Any], *, replace: bool = False, **rules: Rule) -> None:
    """Register a gradient in the explicit form (a `GradientConfig`) or in the table form (a kernel and its rules).

    >>> import plugrad
    >>> config = plugrad.GradientConfig("Wave", lambda dy, saved, attrs: {"x": dy * plugrad.cos(saved[0])}, ("x",))
    >>> plugrad.register_gradient(config)
    >>> plugrad.unregister_gradient("Wave").kernel_name
    'Wave'

    Raises:
        RegistrationError: the kernel has a gradient and `replace` is False, or the entry names unknown inputs.
        ArgumentError: `config` is neither.
    """
    registry.set_gradient(_compiled(config, rules), replace=replace)


def _compiled(config: GradientConfig | Kernel[..., Any], rules: Mapping[str, Rule]) -> Gradient:
    if isinstance(config, Kernel):
        return Gradient(config.name, _table_planner(config, rules))
    if not isinstance(config, GradientConfig):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
        raise ArgumentError(f"register_gradient takes a GradientConfig or a kernel, not {type(config).__name__}")
    if contract := KERNELS.get(config.kernel_name):
        config.planner(contract, ())
    return Gradient(config.kernel_name, config.planner)


@contextmanager
def override_gradient(config: GradientConfig | Kernel[..., Any], **rules: Rule) -> Iterator[None]:
    """Use another gradient for the calls made inside a ``with`` block; the previous one, or none, is restored on exit.

    >>> import plugrad
    >>> from plugrad.kernels import unary
    >>> with plugrad.override_gradient(unary.sign, x=lambda dy: dy):  # the straight-through estimator
    ...     plugrad.grad(plugrad.sign)(plugrad.asarray([0.5]))
    tensor([1.], dtype=float32)

    The override holds for the whole process, not only for the calling thread.
    """
    compiled = _compiled(config, rules)
    previous = registry.get_gradient(compiled.kernel_name)
    registry.set_gradient(compiled, replace=True)
    try:
        yield
    finally:
        registry.unregister_gradient(compiled.kernel_name)
        if previous is not None:
            registry.set_gradient(previous)
