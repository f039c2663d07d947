"""Run a kernel: find the implementation for the inputs' backend, call it, wrap the result, record it on the tape.

`run` is the hot path: every op of every program passes through it, so what is rare is moved out of
its way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from plugrad import registry, selection
from plugrad.dtype import as_dtype, string
from plugrad.errors import (
    ArgumentError,
    BackendMismatch,
    OutOfMemory,
    PlugradError,
    UnsupportedDtype,
)
from plugrad.scope import surroundings
from plugrad.tape import record
from plugrad.tensor import Tensor

if TYPE_CHECKING:
    from plugrad.backend import Backend, Implementation
    from plugrad.kernel import Kernel


ADOPTED_FROM = 65536
"""Where NumPy allocates, arrays with fewer bytes are not counted: it would take as long as computing."""


def run(kernel: Kernel[..., Any], inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """Run `kernel` on the backend where its inputs live; without inputs, on the active backend.

    Returns:
        One tensor, or a list of them if the kernel has several outputs.

    Raises:
        KernelNotFound: the backend does not implement the kernel.
        BackendMismatch: the inputs live on different backends.
        DisposedTensor: an input was disposed.
    """
    if kernel.is_checked_first and len(inputs) < kernel.input_count:
        left_out: list[Any] = [None] * (kernel.input_count - len(inputs))
        inputs = [*inputs, *left_out]
    if surroundings() is not None:
        inputs = [x if x is None else selection.transferred(x) for x in inputs]
    try:
        backend = inputs[0].backend
        is_recorded = False
        arrays: list[Any] = []
        for x in inputs:
            arrays.append(x.array)
            if x.backend is not backend:
                raise _mismatch(kernel, inputs)
            if x.node is not None:
                is_recorded = True
    except (AttributeError, IndexError):  # an optional input is absent, or there are no inputs
        return _run_with_gaps(kernel, inputs, attrs)
    if len(attrs) != kernel.attribute_count:
        attrs = kernel.complete(attrs)
    output = _computed(kernel, backend, arrays, attrs)
    if is_recorded:
        _record(kernel, inputs, arrays, attrs, output)
    return output


def create(kernel: Kernel[..., Any], backend: Backend, attrs: Mapping[str, Any]) -> Tensor:
    """Run a kernel without inputs on `backend`, which the implementation gets in their place."""
    attrs = kernel.complete(attrs)
    spec = kernel.infer(**attrs)
    if backend.limit is not None:
        backend.make_room(_bytes_of(spec))
    return _computed(kernel, backend, [backend], attrs)


def _run_with_gaps(
    kernel: Kernel[..., Any], inputs: Sequence[Any], attrs: Mapping[str, Any]
) -> Any:
    given = [x for x in inputs if x is not None]
    _check_tensors(kernel.name, given)
    if not given:
        if kernel.inputs:
            raise ArgumentError(f"{kernel.name}: no input is given; it takes {list(kernel.inputs)}")
        return create(kernel, selection.active_backend(), attrs)
    absent = {name for name, x in zip(kernel.inputs, inputs, strict=False) if x is None}
    if not absent <= kernel.optional_inputs:
        raise ArgumentError(
            f"{kernel.name}: inputs {sorted(absent - kernel.optional_inputs)} are missing; it takes "
            f"{list(kernel.inputs)}"
        )
    backend = given[0].backend
    if any(x.backend is not backend for x in given):
        raise _mismatch(kernel, given)
    arrays = [None if x is None else x.array for x in inputs]
    attrs = kernel.complete(attrs)
    output = _computed(kernel, backend, arrays, attrs)
    if any(x.node is not None for x in given):
        _record(kernel, inputs, arrays, attrs, output)
    return output


def _check_tensors(name: str, inputs: Sequence[Any]) -> None:
    for x in inputs:
        if not isinstance(x, Tensor):
            raise ArgumentError(
                f"{name}: inputs must be tensors, not {type(x).__name__}; "
                "convert them with plugrad.asarray"
            )


def _computed(
    kernel: Kernel[..., Any], backend: Backend, arrays: list[Any], attrs: Mapping[str, Any]
) -> Any:
    """Call the implementation and wrap its result."""
    function = backend.functions.get(kernel.name)
    if kernel.is_checked_first or backend.limit is not None:
        _check(kernel, backend, arrays, attrs)
    try:
        if function is None:
            function = _hosted(kernel, backend)
        result = function(*arrays, **attrs) if attrs else function(*arrays)
    except Exception as failure:
        if not _has_strings(arrays, attrs):
            _explain(failure, kernel, backend, arrays, attrs)
            raise
        result = _with_strings(failure, kernel, backend, arrays, attrs)
    if type(result) is tuple or type(result) is list:
        return [wrapped(array, backend) for array in cast("list[Any]", result)]
    return wrapped(result, backend)


def _record(
    kernel: Kernel[..., Any],
    inputs: Sequence[Tensor | None],
    arrays: Sequence[Any],
    attrs: Mapping[str, Any],
    output: Any,
) -> None:
    parents = tuple([None if x is None else x.node for x in inputs])
    differentiated = 0
    for parent in parents:
        differentiated += differentiated + (parent is not None)
    shapes = [None if a is None else a.shape for a in arrays]
    record(kernel, parents, differentiated, arrays, shapes, attrs, output)


def _check(
    kernel: Kernel[..., Any], backend: Backend, arrays: list[Any], attrs: Mapping[str, Any]
) -> None:
    """Raise if the inputs break the contract, or if there is no room for the outputs."""
    if not kernel.inputs:
        return
    specs = kernel.infer(*arrays, **attrs)
    if backend.limit is not None and not kernel.dynamic_shape:
        backend.make_room(_bytes_of(specs))


def _hosted(kernel: Kernel[..., Any], backend: Backend) -> Implementation:
    """Return an implementation that works on the host, or that of another backend if the settings allow it.

    Raises:
        KernelNotFound: the backend has none at all.
    """
    config = registry.get_kernel(kernel.name, backend.name)
    if config is None:
        from plugrad.fallback import borrowed  # rare, and it opens backends

        return borrowed(kernel, backend)
    return _on_host(config.kernel_func, backend)


def _on_host(function: Implementation, backend: Backend) -> Implementation:
    """Return a function of NumPy arrays as one of the backend's arrays. Strings are on the host already."""

    def stored(values: Any) -> Any:
        values = np.asarray(values, order="C")
        return values if as_dtype(values.dtype) is string else backend.from_numpy(values)

    def implementation(*arrays: Any, **attrs: Any) -> Any:
        values = [x if x is None or x is backend else backend.to_numpy(x) for x in arrays]
        result = function(*values, **attrs)
        if isinstance(result, tuple | list):
            return [stored(part) for part in cast("Sequence[Any]", result)]
        return stored(result)

    return implementation


def _has_strings(arrays: Sequence[Any], attrs: Mapping[str, Any]) -> bool:
    """Whether an input is an array of strings, or the result is to be one."""
    dtypes = [x.dtype for x in arrays if hasattr(x, "dtype")]
    return attrs.get("dtype") is string or any(as_dtype(dtype) is string for dtype in dtypes)


def _with_strings(
    failure: Exception,
    kernel: Kernel[..., Any],
    backend: Backend,
    arrays: Sequence[Any],
    attrs: Mapping[str, Any],
) -> Any:
    """Run a kernel that failed on strings with that of a backend on NumPy: they are on the host on every backend.

    Raises:
        DTypeError: the kernel does not take strings.
    """
    if kernel.inputs:
        kernel.infer(*arrays, **attrs)
    reference = selection.numpy_backend()
    function = None if reference is None else reference.functions.get(kernel.name)
    if function is not None and reference is not backend:
        try:
            return _on_host(function, backend)(*arrays, **attrs)
        except Exception as error:
            failure = error
    if isinstance(failure, PlugradError | MemoryError):
        raise failure
    raise UnsupportedDtype(
        f"{kernel.name} on backend {backend.name!r} does not take string; it takes numbers"
    ) from failure


def _explain(
    failure: Exception,
    kernel: Kernel[..., Any],
    backend: Backend,
    arrays: list[Any],
    attrs: Mapping[str, Any],
) -> None:
    """Raise a better error than an implementation's own, if there is one.

    Implementations trust their inputs. If these break the contract, the contract says so in
    plugrad's words.
    """
    if isinstance(failure, PlugradError):
        return
    if isinstance(failure, MemoryError):
        raise OutOfMemory(
            f"{kernel.name} on backend {backend.name!r}: {failure}; use smaller batches"
        ) from failure
    if not kernel.dynamic_shape and kernel.inputs:
        kernel.infer(*arrays, **attrs)


def wrapped(array: Any, backend: Backend) -> Tensor:
    """Return a new array as a tensor, counted if nobody else does and known to the open `tidy` block."""
    if backend.adopt is not None and array.nbytes >= ADOPTED_FROM:
        backend.adopt(array)
    tensor = Tensor(array, backend)
    around = surroundings()
    if around is not None and around.scope is not None:
        around.scope.track(tensor)
    return tensor


def _bytes_of(specs: Any) -> int:
    outputs = [specs] if hasattr(specs, "dtype") else specs
    return sum(prod(output.shape) * output.dtype.itemsize for output in outputs)


def _mismatch(kernel: Kernel[..., Any], inputs: Sequence[Tensor]) -> BackendMismatch:
    places = list(dict.fromkeys(f"{x.backend.name}:{x.backend.device}" for x in inputs))
    return BackendMismatch(
        f"{kernel.name}: the inputs live on {' and '.join(places)}; move one of them, as in x.to({places[0]!r}), "
        f"or run inside plugrad.use({places[0]!r}, transfer=True)"
    )


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
        inputs: a mapping from input name to tensor, or to a list of them if the kernel takes one
            beside others; a sequence for the kernels that take a list only.
        attrs: a mapping from attribute name to value.

    Returns:
        One tensor, or a list of them if the kernel has several outputs.

    Raises:
        KernelNotFound: nobody knows the kernel, or the backend at hand does not implement it.
        ArgumentError: an input or attribute is unknown or missing.
    """
    from plugrad.kernel import KERNELS  # kernels run on the engine

    attrs = attrs or {}
    given = _flat(inputs)
    _check_tensors(name, [x for x in given if x is not None])
    contract = KERNELS.get(name) or _contract_by_signature(name, given)
    if not isinstance(inputs, Mapping):
        if not contract.is_variadic:
            raise ArgumentError(
                f"{name} takes a mapping of inputs {list(contract.inputs)}, not a list"
            )
        return _run_checked(contract, given, attrs)
    if contract.is_variadic:
        raise ArgumentError(f"{name} takes a list of inputs, not a mapping")
    present = {n for n, x in inputs.items() if x is not None}
    lists = {n for n, x in inputs.items() if isinstance(x, list | tuple)}
    if lists - {contract.inputs[-1] if contract.takes_list else ""}:
        raise ArgumentError(f"{name}: inputs {sorted(lists)} are lists; each of them is one tensor")
    wrong = (inputs.keys() - set(contract.inputs)) | (
        set(contract.inputs) - contract.optional_inputs - present
    )
    if wrong:
        raise ArgumentError(
            f"{name}: inputs {sorted(wrong)} are unknown or missing; it takes {list(contract.inputs)}"
        )
    return _run_checked(contract, _flat({n: inputs.get(n) for n in contract.inputs}), attrs)


def _flat(inputs: Mapping[str, Any] | Sequence[Any]) -> list[Tensor | None]:
    """Return the inputs in order; the last of a mapping may be a list of them."""
    if not isinstance(inputs, Mapping):
        return list(inputs)
    flat: list[Any] = []
    for x in inputs.values():
        flat += cast("Sequence[Any]", x) if isinstance(x, list | tuple) else [x]
    return flat


def _run_checked(
    contract: Kernel[..., Any], inputs: Sequence[Tensor | None], attrs: Mapping[str, Any]
) -> Any:
    """Run a kernel after enforcing its contract, which ops do for those who call ops."""
    if contract.takes_list and None in inputs[contract.input_count :]:
        raise ArgumentError(f"{contract.name}: the list {contract.inputs[-1]!r} has None in it")
    contract.check_attributes(attrs)
    if inputs and inputs[0] is not None:
        attrs = contract.settle(attrs, inputs[0].ndim)
    if contract.is_elementwise:
        contract.infer(*inputs, **attrs)
    return run(contract, inputs, attrs)


def _contract_by_signature(name: str, inputs: Sequence[Tensor | None]) -> Kernel[..., Any]:
    """Return a contract made from the implementation's own parameters, for a kernel that nobody declared."""
    from plugrad.fallback import any_implementation, missing_kernel
    from plugrad.packs import find_contract

    backend = next((x.backend for x in inputs if x is not None), None) or selection.active_backend()
    function = any_implementation(name, backend)
    if function is None:
        contract = find_contract(name)
        if contract is not None:
            return contract
        function = any_implementation(name, backend)
    if function is None:
        raise missing_kernel(name, backend.name)
    return _undeclared(name, function)


@lru_cache(maxsize=256)
def _undeclared(name: str, function: Any) -> Kernel[..., Any]:
    from plugrad.kernel import UndeclaredKernel

    return UndeclaredKernel(name, function, "undeclared", dynamic_shape=True)
