"""Kernels run by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from plugrad.contract.kernel import get_contract
from plugrad.contract.undeclared import make_undeclared_kernel
from plugrad.discovery.fallback import (
    find_own_or_fallback_implementation,
    make_kernel_not_found_error,
)
from plugrad.discovery.packs import find_contract
from plugrad.discovery.selection import active_backend
from plugrad.engine.dispatch import run
from plugrad.engine.explain import make_not_a_tensor_error
from plugrad.engine.tensorflow_js import has_tensorflow_window, translate_window_attributes
from plugrad.errors import ArgumentError
from plugrad.tensor.tensor import Tensor
from plugrad.types.arguments import check_string

if TYPE_CHECKING:
    from plugrad.contract.kernel import Kernel


def run_kernel(
    name: str,
    inputs: Mapping[str, Tensor | Sequence[Tensor] | None] | Sequence[Tensor],
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """Run a kernel by name.

    >>> import plugrad
    >>> x = plugrad.asarray([1.0, 2.0])
    >>> plugrad.run_kernel("Multiply", {"a": x, "b": x})
    tensor([1., 4.], dtype=float32)
    >>> plugrad.run_kernel("Concat", [x, x], {"axis": 0})
    tensor([1., 2., 1., 2.], dtype=float32)

    Args:
        name: the registry name.
        inputs: a mapping from input name to tensor, or to a list of tensors where the kernel takes a list;
            a sequence for a kernel that takes only a list.
        attrs: a mapping from attribute name to value. A kernel with a `window` also takes TensorFlow.js's
            attributes, such as strides, pad and dataFormat, instead.

    Returns:
        One tensor, or a list of them if the kernel has several outputs.

    Raises:
        KernelNotFound: the kernel is unknown, or the backend does not implement it.
        ArgumentError: an input or attribute is unknown or missing.
    """
    name = check_string(name, "run_kernel", "name")
    attrs = {} if attrs is None else attrs
    if not isinstance(attrs, Mapping) or not isinstance(inputs, Mapping | Sequence):  # pyright: ignore[reportUnnecessaryIsInstance] - callers pass anything
        raise ArgumentError(
            f"{name}: inputs and attrs must be mappings by name; the inputs of a kernel that takes only a "
            "list are a sequence"
        )
    given = _flatten_inputs(inputs)
    for x in given:
        if x is not None and not isinstance(x, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance] - callers pass arrays
            raise make_not_a_tensor_error(name, x)
    contract = get_contract(name) or contract_from_signature(name, given)
    if not isinstance(inputs, Mapping):
        if not contract.is_variadic:
            raise ArgumentError(
                f"{name} takes a mapping of inputs {list(contract.inputs)}, not a list"
            )
        return _normalize_and_run(contract, given, attrs)
    if contract.is_variadic:
        raise ArgumentError(f"{name} takes a list of inputs, not a mapping")
    present = {n for n, x in inputs.items() if x is not None}
    lists = {n for n, x in inputs.items() if isinstance(x, list | tuple)}
    if lists - {contract.inputs[-1] if contract.takes_list else ""}:
        raise ArgumentError(f"{name}: inputs {sorted(lists)} are lists; each must be one tensor")
    wrong = (inputs.keys() - set(contract.inputs)) | (
        set(contract.inputs) - contract.optional_inputs - present
    )
    if wrong:
        raise ArgumentError(
            f"{name}: inputs {sorted(wrong)} are unknown or missing; it takes {list(contract.inputs)}"
        )
    ordered = {n: inputs.get(n) for n in contract.inputs}
    if has_tensorflow_window(contract, attrs):
        ordered, attrs, finish = translate_window_attributes(contract, cast("Any", ordered), attrs)
        return finish(_normalize_and_run(contract, _flatten_inputs(ordered), attrs))
    return _normalize_and_run(contract, _flatten_inputs(ordered), attrs)


def _flatten_inputs(inputs: Mapping[str, Any] | Sequence[Any]) -> list[Tensor | None]:
    """Return the inputs as a flat list; the last entry of a mapping may itself be a list."""
    if not isinstance(inputs, Mapping):
        return list(inputs)
    flat: list[Any] = []
    for x in inputs.values():
        flat += cast("Sequence[Any]", x) if isinstance(x, list | tuple) else [x]
    return flat


def _normalize_and_run(
    contract: Kernel[..., Any], inputs: Sequence[Tensor | None], attrs: Mapping[str, Any]
) -> Any:
    """Normalize the attributes as ops do, then run the kernel."""
    if contract.takes_list and None in inputs[contract.input_count :]:
        raise ArgumentError(f"{contract.name}: the list {contract.inputs[-1]!r} contains None")
    contract.check_attributes(attrs)
    if inputs and inputs[0] is not None:
        attrs = contract.normalize_axes(attrs, inputs[0].ndim)
    return run(contract, inputs, attrs)


def contract_from_signature(kernel_name: str, inputs: Sequence[Tensor | None]) -> Kernel[..., Any]:
    """Return a substitute for the contract that a kernel lacks, made from the parameters of its implementation."""
    backend = next((x.backend for x in inputs if x is not None), None) or active_backend()
    function = find_own_or_fallback_implementation(kernel_name, backend)
    if function is None:
        contract = find_contract(kernel_name)
        if contract is not None:
            return contract
        function = find_own_or_fallback_implementation(kernel_name, backend)
    if function is None:
        raise make_kernel_not_found_error(kernel_name, backend.name)
    return make_undeclared_kernel(kernel_name, function)
