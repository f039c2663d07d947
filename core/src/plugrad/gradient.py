"""Gradients: the backward definition of a kernel, one rule per input.

A rule *names what it needs* through its parameters:

* ``dy``: the gradient of the output (a list of them for a kernel with several outputs);
* ``out`` or ``outs``: the output, or the list of outputs;
* an input's name, such as ``x``; for a kernel that takes a list, all of its inputs;
* an input's name with ``_spec``: only its shape and dtype, which costs no memory;
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
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from plugrad import registry
from plugrad.dtype import as_dtype
from plugrad.errors import ArgumentError, RegistrationError
from plugrad.kernel import KERNELS, Kernel, Shaped
from plugrad.tensor import Tensor

if TYPE_CHECKING:
    from plugrad.tape import Call, Node, Pulled

Rule: TypeAlias = Callable[..., Any]  # its parameters are whatever it needs; it returns a tensor, or None for "nothing"
GradFunc: TypeAlias = Callable[[Any, list[Any], Mapping[str, Any]], Mapping[str, Any]]


class Plan(Protocol):
    """What a call must keep for the inputs that are differentiated, and how to pull a gradient back."""

    saved_inputs: tuple[int, ...]
    needs_output: bool

    def pull(self, call: Call, dy: Any, wanted: Sequence[bool], linked: bool) -> Pulled:
        """Return (position, gradient) for the wanted inputs."""
        ...


class Gradient:
    """The gradient of one kernel: a table of rules, or a function that returns them."""

    is_zero = False

    def __init__(self, kernel_name: str, planner: Callable[[Kernel[..., Any], tuple[int, ...]], Plan]) -> None:
        """Create a gradient whose plans, one for each set of differentiated inputs, come from `planner`."""
        self.kernel_name = kernel_name
        self._planner = planner
        self._plans: dict[tuple[int, ...] | int, Plan] = {}

    def plan(self, kernel: Kernel[..., Any], parents: tuple[Node | None, ...]) -> Plan:
        """Return the plan for a call in which the inputs with a parent are differentiated."""
        key = 0
        for parent in parents:
            key = key * 2 + (parent is not None)
        key = key if not kernel.is_variadic else -1
        plan = self._plans.get(key)
        if plan is None:
            positions = tuple(i for i, parent in enumerate(parents) if parent is not None)
            plan = self._plans[key] = self._planner(kernel, positions)
        return plan


class NoGradient(Gradient):
    """The gradient of a kernel whose output does not change smoothly: it contributes nothing."""

    is_zero = True

    def __init__(self, kernel_name: str) -> None:
        """Declare that `kernel_name` contributes nothing."""
        self.kernel_name = kernel_name


# --- the table form ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RulePlan:
    """The rules of the differentiated inputs; `needs` lists each value that one of them names, once."""

    rules: tuple[tuple[int, Rule, tuple[int, ...]], ...]
    needs: tuple[str, ...]
    saved_inputs: tuple[int, ...]
    needs_output: bool

    def pull(self, call: Call, dy: Any, wanted: Sequence[bool], linked: bool) -> Pulled:
        """Evaluate the rules of the wanted inputs."""
        values = self._values(call, dy, linked)
        for index, rule, positions in self.rules:
            if index < 0:  # one rule for a list of inputs
                yield from enumerate(rule(*[values[p] for p in positions]))
            elif wanted[index]:
                yield index, rule(*[values[p] for p in positions])

    def _values(self, call: Call, dy: Any, linked: bool) -> list[Any]:
        kernel = call.kernel
        saved = call.saved_tensors(linked) if self.saved_inputs else []
        values: list[Any] = []
        for need in self.needs:
            if need == "dy":
                values.append(dy)
            elif need == "dy_input":
                values.append(saved[self.saved_inputs.index(kernel.inputs.index("dy"))])
            elif need in ("out", "outs"):
                values.append(call.output_tensors(linked))
            elif need == "attrs":
                values.append(call.attrs)
            elif need in kernel.attributes:
                values.append(call.attrs[need])
            elif need in kernel.inputs:
                values.append(saved if kernel.is_variadic else saved[self.saved_inputs.index(kernel.inputs.index(need))])
            else:
                specs = [None if s is None else Shaped(s, as_dtype(d)) for s, d in zip(call.shapes, call.dtypes, strict=True)]
                values.append(specs if kernel.is_variadic else specs[kernel.inputs.index(need.removesuffix("_spec"))])
        return values


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


def _table_planner(kernel: Kernel[..., Any], rules: Mapping[str, Rule]) -> Callable[[Kernel[..., Any], tuple[int, ...]], Plan]:
    known = {"dy", "out", "outs", "attrs", *(["dy_input"] if "dy" in kernel.inputs else []), *kernel.inputs, *kernel.attributes, *(f"{n}_spec" for n in kernel.inputs)}
    needs = {name: tuple(inspect.signature(rule).parameters) for name, rule in rules.items()}
    unknown = (rules.keys() - set(kernel.inputs)) | ({n for ns in needs.values() for n in ns} - known)
    if unknown:
        raise RegistrationError(f"gradient of {kernel.name}: unknown {sorted(unknown)}; known are {sorted(known)}")

    def planner(kernel: Kernel[..., Any], positions: tuple[int, ...]) -> Plan:
        names = kernel.inputs if kernel.is_variadic else [kernel.inputs[i] for i in positions]
        active = [name for name in names if name in rules]
        values = tuple(dict.fromkeys(need for name in active for need in needs[name]))
        table = tuple(
            (-1 if kernel.is_variadic else kernel.inputs.index(name), rules[name], tuple(values.index(n) for n in needs[name]))
            for name in active
        )
        if kernel.is_variadic:
            saved = positions if kernel.inputs[0] in values else ()
        else:
            saved = tuple(i for i, name in enumerate(kernel.inputs) if (name if name != "dy" else "dy_input") in values)
        return RulePlan(table, values, saved, bool({"out", "outs"} & set(values)))

    return planner


def not_differentiable(*kernels: Kernel[..., Any]) -> None:
    """Declare that kernels contribute nothing to a gradient: their outputs are whole numbers, flags, or constant pieces."""
    for kernel in kernels:
        registry.set_gradient(NoGradient(kernel.name))


# --- the explicit form ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FunctionPlan:
    """A gradient function, with the inputs and outputs that it asked to be saved."""

    grad_func: GradFunc
    saved_inputs: tuple[int, ...]
    outputs_to_save: tuple[bool, ...]

    @property
    def needs_output(self) -> bool:
        """Whether an output is saved."""
        return any(self.outputs_to_save)

    def pull(self, call: Call, dy: Any, wanted: Sequence[bool], linked: bool) -> Pulled:
        """Call the function, and then the thunks of the wanted inputs."""
        outputs = call.output_tensors(linked) if self.needs_output else []
        outputs = outputs if isinstance(outputs, list) else [outputs]
        kept = [out for out, is_saved in zip(outputs, self.outputs_to_save, strict=False) if is_saved]
        thunks = self.grad_func(dy, [*call.saved_tensors(linked), *kept], call.attrs)
        kernel = call.kernel
        for index, is_wanted in enumerate(wanted):
            if not is_wanted:
                continue
            name = str(index) if kernel.is_variadic else kernel.inputs[index]
            if name not in thunks:
                raise RegistrationError(f"the gradient function of {kernel.name} has no entry for input {name!r}; it has {sorted(thunks)}")
            thunk = thunks[name]
            yield index, thunk if isinstance(thunk, Tensor) else thunk()


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

    def planner(self, kernel: Kernel[..., Any], positions: tuple[int, ...]) -> Plan:
        """Return the plan of a call; it saves the same things whichever inputs are differentiated."""
        if unknown := set(self.inputs_to_save) - set(kernel.inputs):
            raise RegistrationError(f"gradient of {kernel.name}: inputs_to_save has {sorted(unknown)}; the inputs are {list(kernel.inputs)}")
        saved = positions if kernel.is_variadic and self.inputs_to_save else tuple(map(kernel.inputs.index, self.inputs_to_save))
        return FunctionPlan(self.grad_func, saved, self.outputs_to_save)


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
