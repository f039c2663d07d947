"""Gradients: the backward definition of a kernel, one rule per input.

A rule *names what it needs* through its parameters:

* ``dy``: the gradient of the output (a list of them for a kernel with several outputs);
* ``out`` or ``outs``: the output, or the list of outputs;
* ``absent``: for a kernel with several outputs, the indices of the outputs that the result does not
  depend on; their ``dy`` is zeros;
* an input's name, such as ``x``;
* an input's name with ``_spec``: only its shape and dtype, which costs no memory; in both forms, an
  input that is a list of tensors gives a list;
* an attribute's name, or ``attrs`` for all of them;
* ``dy_input``: the input called ``dy``, for the kernels that have one because they are gradients themselves.

The tape keeps only what the rules of the *differentiated* inputs name. Rules are written with ops or
kernels, so they run on every backend and can be differentiated. The tape sums each gradient to its
input's shape, so rules need not undo broadcasting.
"""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from plugrad.contract.kernel import Kernel, get_contract
from plugrad.contract.parameters import inspect_parameters
from plugrad.errors import ArgumentError, RegistrationError, short_repr
from plugrad.registry.gradients import (
    RegisteredGradient,
    find_gradient,
    set_gradient,
    warn_in_debug_mode,
)
from plugrad.tape.plans import (
    ALL_INPUT_POSITIONS,
    GradFunc,
    GradientPlan,
    GradientRule,
    make_function_plan,
    make_rule_application,
)
from plugrad.tensor.context import RegistryOverride, override_registry
from plugrad.types.arguments import (
    check_callable,
    check_flag,
    check_string,
    explain_wrong_calls,
    explain_wrong_fields,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from plugrad.registry.gradients import VjpPlan


@explain_wrong_calls
def gradient(kernel: Kernel[..., Any], *, replace: bool = False, **rules: GradientRule) -> None:
    """Declare the gradient of `kernel`: one rule per input, evaluated only when that input needs it.

    >>> import plugrad
    >>> from plugrad.extend import Spec, gradient, kernel
    >>> @kernel("Cubed", family="example")
    ... def cubed(x: Spec) -> Spec:
    ...     return x
    >>> gradient(cubed, x=lambda dy, x: dy * 3.0 * x * x)

    Raises:
        RegistrationError: a rule names an unknown input, or needs something the kernel does not
            have, or the kernel has a gradient already and `replace` is False.
        ArgumentError: `kernel` is not a kernel.
    """
    _check_kernel("gradient", kernel)
    set_gradient(_compile_gradient(kernel, rules), replace=replace)


def _make_rule_table_planner(
    kernel: Kernel[..., Any], rules: Mapping[str, GradientRule]
) -> Callable[[Kernel[..., Any], Sequence[int]], VjpPlan]:
    """Return a function that makes the gradient plan of a kernel from its rules, after a check of their parameters."""
    inputs = kernel.inputs
    known = {"dy", "out", "outs", "absent", "attrs", *kernel.attributes}
    known |= {name for n in inputs for name in (f"{n}_spec", "dy_input" if n == "dy" else n)}
    parameters = {name: inspect_parameters(rule) for name, rule in rules.items()}
    needs = {name: (*p.positional, *p.keyword) for name, p in parameters.items()}
    unknown = (rules.keys() - set(inputs)) | (set[str]().union(*needs.values()) - known)
    if unknown:
        raise RegistrationError(
            f"gradient of {kernel.name}: unknown {sorted(unknown)}; known are {sorted(known)}"
        )

    def planner(kernel: Kernel[..., Any], differentiated_positions: Sequence[int]) -> VjpPlan:
        # If the number of inputs varies, positions do not identify them: the plan is for all.
        """Return the gradient plan for the inputs at `differentiated_positions`."""
        given = inputs if kernel.takes_list else [inputs[i] for i in differentiated_positions]
        active = [name for name in given if name in rules]
        named = set[str]().union(*[needs[name] for name in active]) - {"dy"}
        kept = {"dy" if need == "dy_input" else need for need in named}
        saved: Sequence[int] = tuple(i for i, name in enumerate(inputs) if name in kept)
        if kernel.takes_list and inputs[-1] in kept:
            saved = ALL_INPUT_POSITIONS
        return GradientPlan(
            kernel,
            *[
                make_rule_application(rules[n], needs[n], kernel, inputs.index(n), saved)
                for n in active
            ],
            saved_inputs=saved,
            needs_output=bool(kept & {"out", "outs"}),
            needs_dtypes=any(need.endswith("_spec") for need in kept),
        )

    return planner


@explain_wrong_calls
def not_differentiable(*kernels: Kernel[..., Any], because: str) -> None:
    """Declare that kernels have no gradient, and why: their results are positions, flags or step functions.

    >>> import plugrad
    >>> from plugrad.extend import Spec, kernel, not_differentiable
    >>> @kernel("Parity", family="example")
    ... def parity(x: Spec) -> Spec:
    ...     return x
    >>> not_differentiable(parity, because="it is constant between jumps")
    """
    for kernel in kernels:
        _check_kernel("not_differentiable", kernel)
        stop = RegisteredGradient(kernel.name, lambda kernel, positions: None, (), because)
        set_gradient(stop)


def _check_kernel(function_name: str, kernel: object) -> None:
    """Raise unless the argument of a function of gradients is a kernel."""
    if not isinstance(kernel, Kernel):
        raise ArgumentError(
            f"{function_name} takes a kernel, such as plugrad.kernels.unary.exp, not {short_repr(kernel)}; "
            "GradientConfig takes the name of one"
        )


@explain_wrong_fields
class GradientConfig(NamedTuple):
    """The explicit form of a gradient, for a kernel known by name.

    ``grad_func(dy, saved, attrs)`` returns a mapping from input name to a tensor, or to a function
    without arguments that returns one and is called only if that input needs it. For a kernel that
    takes a list the names are ``"0"``, ``"1"`` … `saved` holds the inputs named in
    `inputs_to_save`, then the outputs marked in `outputs_to_save`.
    """

    kernel_name: str
    grad_func: GradFunc
    inputs_to_save: tuple[str, ...] = ()
    outputs_to_save: tuple[bool, ...] = ()

    def planner(self, kernel: Kernel[..., Any], positions: Sequence[int]) -> VjpPlan:
        """Return the plan of a call; it saves the same values for any differentiated inputs."""
        if unknown := set(self.inputs_to_save) - set(kernel.inputs):
            raise RegistrationError(
                f"gradient of {kernel.name}: inputs_to_save has {sorted(unknown)}; the inputs are {list(kernel.inputs)}"
            )
        names_list = kernel.takes_list and kernel.inputs[-1] in self.inputs_to_save
        if names_list and not kernel.is_variadic:
            raise RegistrationError(
                f"gradient of {kernel.name}: only the table form of register_gradient can name the "
                f"list {kernel.inputs[-1]!r}"
            )
        if not (kernel.is_variadic and self.inputs_to_save):
            positions = [kernel.inputs.index(name) for name in self.inputs_to_save]
        return make_function_plan(kernel, self.grad_func, positions, self.outputs_to_save)


def register_gradient(
    config: GradientConfig | Kernel[..., Any], *, replace: bool = False, **rules: GradientRule
) -> None:
    """Register a gradient in the explicit form (a `GradientConfig`) or in the table form (a kernel and its rules).

    >>> import plugrad
    >>> config = plugrad.GradientConfig(
    ...     "Wave", lambda dy, saved, attrs: {"x": dy * plugrad.cos(saved[0])}, ("x",)
    ... )
    >>> plugrad.register_gradient(config)
    >>> plugrad.unregister_gradient("Wave").kernel_name
    'Wave'

    Raises:
        RegistrationError: the kernel has a gradient already and `replace` is False, or the entry names
            unknown inputs.
        ArgumentError: `config` is neither.
    """
    set_gradient(
        _compile_gradient(config, rules),
        replace=check_flag(replace, "register_gradient", "replace"),
    )


def _compile_gradient(
    config: GradientConfig | Kernel[..., Any], rules: Mapping[str, GradientRule]
) -> RegisteredGradient:
    """Return a gradient in the explicit or the table form as an entry of the registry, after a check."""
    if isinstance(config, Kernel):
        return RegisteredGradient(
            config.name, _make_rule_table_planner(config, rules), tuple(rules)
        )
    if not isinstance(config, GradientConfig):  # pyright: ignore[reportUnnecessaryIsInstance] - callers pass anything
        raise ArgumentError(
            f"register_gradient takes a GradientConfig or a kernel, not {type(config).__name__}"
        )
    check_string(config.kernel_name, "GradientConfig", "kernel_name")
    check_callable("GradientConfig", config.grad_func)
    try:
        inspect.signature(config.grad_func).bind("dy", "saved", "attrs")
    except TypeError as error:
        raise RegistrationError(
            f"gradient of {config.kernel_name}: grad_func must take dy, saved and attrs, as in "
            f"lambda dy, saved, attrs: {{'x': dy * saved[0]}}: {error}"
        ) from None
    except ValueError:  # Python cannot inspect a compiled function
        pass
    if contract := get_contract(config.kernel_name):
        config.planner(contract, ())
    return RegisteredGradient(config.kernel_name, config.planner)


@contextmanager
def override_gradient(
    config: GradientConfig | Kernel[..., Any], **rules: GradientRule
) -> Generator[None, None, None]:
    """Use another gradient for the calls made inside a ``with`` block, in this thread or task only.

    >>> import plugrad
    >>> from plugrad.kernels import unary
    >>> with plugrad.override_gradient(
    ...     unary.sign, x=lambda dy: dy
    ... ):  # the straight-through estimator
    ...     plugrad.grad(plugrad.sign)(plugrad.asarray([0.5]))
    tensor([1.], dtype=float32)

    Blocks for one kernel may be nested, and may end in any order. `plugrad.carry_context` carries the override to other
    threads.
    """
    compiled = _compile_gradient(config, rules)
    warn_in_debug_mode(compiled.kernel_name, find_gradient(compiled.kernel_name))
    with override_registry(RegistryOverride("gradient", compiled.kernel_name, compiled)):
        yield
