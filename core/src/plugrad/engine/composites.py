"""Composites: kernels with a body of ops, which runs on backends without an implementation of their own.

The body runs on the device of the inputs. It is one call on the tape: if the kernel has a gradient of its own, that
one is used; otherwise the body is differentiated, for which it runs again in the backward pass. So the gradient
does not depend on whether a backend has an implementation, and intermediate results are not kept.
"""

from __future__ import annotations

import inspect
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from plugrad.contract.kernel import Kernel
from plugrad.discovery.selection import activate_backend
from plugrad.engine.transfer import make_leaf
from plugrad.errors import ArgumentError, KernelFailed, RegistrationError, short_repr
from plugrad.registry.composites import Composite, register_composite
from plugrad.registry.gradients import RegisteredGradient
from plugrad.tape.nodes import Call, Leaf, Recording, ResultBundle
from plugrad.tape.plans import ALL_INPUT_POSITIONS, GradientPlan, RuleApplication
from plugrad.tape.tape import BackwardPass
from plugrad.tensor.context import use_precision
from plugrad.tensor.tensor import Tensor
from plugrad.types.arguments import check_callable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from plugrad.tensor.backend import Backend, Implementation

CompositeBody = TypeVar("CompositeBody", bound="Callable[..., Any]")
"""The function that defines a composite."""

_running_composites: Final[ContextVar[tuple[str, ...]]] = ContextVar(
    "plugrad_running_composites", default=()
)
"""The names of the kernels whose bodies are running in this context, the outermost one first."""


def composite(
    kernel: Kernel[..., Any], *, is_traced: bool = False
) -> Callable[[CompositeBody], CompositeBody]:
    """Define a kernel by a function of ops, which runs on every backend without an implementation of its own.

    >>> import plugrad
    >>> from plugrad.extend import Spec, composite, kernel
    >>> @kernel("Cube", family="example")
    ... def cube(x: Spec) -> Spec:
    ...     return x
    >>> @composite(cube)
    ... def cube_of_ops(x):
    ...     return x * x * x
    >>> plugrad.grad(cube)(2.0)
    tensor(12., dtype=float32)

    The body takes the contract's inputs by position, as tensors, and its attributes by name. It returns
    one tensor, or a list of them if the kernel has several outputs. It runs on the device of the inputs,
    and new tensors are made there. Unless the kernel has a gradient of its own, the body is
    differentiated, on every backend.

    Args:
        kernel: the contract.
        is_traced: whether a traced function has the ops of the body instead of the kernel, although a backend
            has an implementation: compilers fuse them with what is around, and exporters know them.

    Raises:
        ArgumentError: `kernel` is not a kernel, or the body is not callable.
        RegistrationError: the kernel has a body already, or the body does not take the contract's
            inputs and attributes.
    """
    if not isinstance(kernel, Kernel):  # pyright: ignore[reportUnnecessaryIsInstance] - callers pass names
        raise ArgumentError(
            "composite takes a kernel, such as plugrad.kernels.unary.exp, not "
            f"{short_repr(kernel)}; declare the contract "
            "with @kernel first"
        )

    def decorate(body: CompositeBody) -> CompositeBody:
        check_callable("composite", body)
        _check_parameters(kernel, body)
        rule = RuleApplication(None, partial(_vjp_through_body, body))
        plan = GradientPlan(kernel, rule, saved_inputs=ALL_INPUT_POSITIONS)
        gradient = RegisteredGradient(kernel.name, lambda kernel, _: plan)
        register_composite(Composite(kernel, body, gradient, is_traced))
        return body

    return decorate


def _check_parameters(kernel: Kernel[..., Any], body: Callable[..., Any]) -> None:
    """Raise unless a composite takes the inputs of its contract by position and the attributes by name."""
    inputs = [*kernel.inputs, *kernel.inputs[-1:]] if kernel.takes_list else kernel.inputs
    try:
        inspect.signature(body).bind(*inputs, **dict.fromkeys(kernel.attributes))
    except TypeError as error:
        names = [*kernel.inputs[:-1], f"*{kernel.inputs[-1]}"] if kernel.takes_list else inputs
        star = ["*"] if kernel.attributes and not kernel.takes_list else []
        parameters = ", ".join((*names, *star, *kernel.attributes))
        raise RegistrationError(
            f"the body of {kernel.name} does not take the contract's inputs and attributes: {error}. "
            f"Define it as in def body({parameters})"
        ) from None


def composite_implementation(composite: Composite, backend: Backend) -> Implementation:
    """Return an implementation of a composite for a backend, which takes and returns the backend's arrays."""

    def implementation(*arrays: Any, **attrs: Any) -> Any:
        inputs = (
            arrays if composite.kernel.inputs else ()
        )  # without inputs, the backend stands there
        tensors = [None if x is None else Tensor(x, backend) for x in inputs]
        result = _run_body(composite.kernel, composite.body, tensors, attrs, backend)
        return [y.array for y in result] if isinstance(result, list) else result.array

    return implementation


def _run_body(
    kernel: Kernel[..., Any],
    body: Callable[..., Any],
    inputs: Sequence[Tensor | None],
    attrs: Mapping[str, Any],
    backend: Backend,
) -> Tensor | list[Tensor]:
    """Return the result of a composite's function for tensors of a backend, after checking it against the contract.

    Raises:
        KernelFailed: the body calls its own kernel, or its result does not fit the contract.
    """
    running = _running_composites.get()
    if kernel.name in running:
        raise _make_recursion_error(kernel.name, running)
    token = _running_composites.set((*running, kernel.name))
    try:
        with activate_backend(backend), use_precision(None):  # the contract promises the dtypes
            result: Any = body(*inputs, **attrs)
    finally:
        _running_composites.reset(token)
    promised = kernel.infer_cached(inputs, attrs)
    is_one = hasattr(promised, "dtype")
    if not is_one and isinstance(result, tuple | list):
        result = list(cast("Sequence[Any]", result))
    outputs = cast("list[Any]", result if isinstance(result, list) else [result])
    specs = [promised] if is_one else promised
    fits = isinstance(result, list) is not is_one and len(outputs) == len(specs)
    if not fits or not all(isinstance(y, Tensor) for y in outputs):
        wanted = "one tensor" if is_one else f"a list of {len(specs)} tensors"
        raise KernelFailed(
            f"the body of {kernel.name} returned {_describe_types(result)}; it must return {wanted}"
        )
    for y, spec in zip(outputs, specs, strict=True):
        shape = y.shape if kernel.dynamic_shape else spec.shape
        if y.backend is not backend or y.shape != shape or y.dtype is not spec.dtype:
            raise KernelFailed(
                f"the body of {kernel.name} returned {y.dtype} of shape {y.shape} on {y.device}; it must return "
                f"{spec.dtype} of shape {shape} on {backend.label}, as the contract says"
            )
    return cast("Any", result)


def _make_recursion_error(kernel_name: str, running_kernels: Sequence[str]) -> KernelFailed:
    """Return the error for a composite whose body calls its own kernel."""
    path = " -> ".join((*running_kernels[running_kernels.index(kernel_name) :], kernel_name))
    return KernelFailed(
        f"the body of {kernel_name} calls {kernel_name} itself ({path}), so it would never end; compose it of other "
        "kernels"
    )


def _describe_types(result: object) -> str:
    """Return the type of a result, or the types in a list, as text."""
    if isinstance(result, list):
        return f"a list of ({', '.join(type(y).__name__ for y in cast('list[object]', result))})"
    return f"a {type(result).__name__}"


def _vjp_through_body(
    body: Callable[..., Any],
    call: Call,
    dy: Any,
    needs_input_grad: Sequence[bool] | None,
    create_graph: bool,
) -> Iterable[tuple[int, Tensor | None]]:
    """Return the gradients of a composite's inputs by running its body again, on a tape, and pulling dy back."""
    kernel = call.gradient_plan.kernel
    leaves: dict[int, Leaf] = {}
    inputs: list[Tensor | None] = []
    for index, (array, parent) in enumerate(zip(call.saved, call.parents, strict=True)):
        x = None if array is None else Tensor(array, call.backend, parent if create_graph else None)
        is_wanted = parent is not None and (needs_input_grad is None or needs_input_grad[index])
        if x is not None and is_wanted and x.dtype.is_inexact:
            x, leaves[index] = make_leaf(x)
        inputs.append(x)
    with Recording(leaves.values()):
        result = _run_body(kernel, body, inputs, call.attrs, call.backend)
    several = isinstance(result, list)
    root = ResultBundle(tuple([y.node for y in result])) if several else result.node
    walk = BackwardPass(root, list(leaves.values()))
    if any(type(node) is Call and node.gradient_plan.kernel is kernel for node in walk.nodes):
        raise _make_recursion_error(kernel.name, [kernel.name])
    return zip(leaves, walk.run(dy), strict=True)
