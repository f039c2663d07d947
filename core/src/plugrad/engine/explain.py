"""The errors of a kernel call: they say what is wrong with the inputs, or why an implementation failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.engine.checking import kernel_location
from plugrad.engine.implementations import holds_strings
from plugrad.errors import (
    ArgumentError,
    BackendMismatch,
    DisposedTensor,
    KernelFailed,
    OutOfMemory,
    PlugradError,
    ShapeError,
    TracingError,
    UnsupportedDtype,
    describe_exception,
    escape_control_characters,
    short_repr,
)
from plugrad.tensor.backend import make_closed_backend_error, mark_device_lost, must_propagate
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import string

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from plugrad.contract.kernel import Kernel
    from plugrad.tensor.backend import Backend


def make_wrong_inputs_error(kernel: Kernel[..., Any], inputs: Sequence[Any]) -> PlugradError:
    """Return the error for inputs of which one is not a tensor, is missing, or lives on another backend."""
    for x in inputs:
        if x is not None and not isinstance(x, Tensor):
            return make_not_a_tensor_error(kernel.name, x)
    given = [x for x in inputs if x is not None]
    if not given:
        return ArgumentError(
            f"{kernel.name}: no input is given; it takes {list(kernel.inputs)}, by position"
        )
    if len(inputs) > kernel.input_count and not kernel.takes_list:
        return ArgumentError(
            f"{kernel.name}: {len(inputs)} inputs are given; it takes {list(kernel.inputs)}, by position"
        )
    if any(x.is_disposed for x in given):
        return DisposedTensor(f"{kernel.name}: an input has been disposed")
    absent = {
        kernel.input_name(i)
        for i in range(max(len(inputs), kernel.input_count))
        if (i >= len(inputs) or inputs[i] is None)
        and kernel.input_name(i) not in kernel.optional_inputs
    }
    if absent:
        return ArgumentError(
            f"{kernel.name}: inputs {sorted(absent)} are missing; it takes {list(kernel.inputs)}"
        )
    if gone := next((x.backend for x in given if x.backend.is_closed), None):
        return make_closed_backend_error(gone, kernel.name)
    places = list(dict.fromkeys(x.backend.label for x in given))
    if len(places) == 1:  # a tracer has the label of the device for which it stands
        return TracingError(
            f"{kernel.name}: an input was kept from a function under jit or vmap whose call has ended; return it from "
            "that function instead"
        )
    return BackendMismatch(
        f"{kernel.name}: the inputs live on {' and '.join(places)}; move one of them, as in x.to({places[0]!r}), "
        f"or run inside plugrad.use({places[0]!r}, transfer=True)"
    )


def make_not_a_tensor_error(input_label: str, x: object) -> ArgumentError:
    """Return the error for an input that is not a tensor."""
    return ArgumentError(
        f"{input_label}: inputs must be tensors, not {type(x).__name__}; convert them with plugrad.asarray"
    )


def explain_failure(
    failure: BaseException,
    kernel: Kernel[..., Any],
    backend: Backend,
    arrays: Sequence[Any],
    attrs: Mapping[str, Any],
) -> BaseException:
    """Return the error to raise for an implementation that failed; the failure is its cause.

    Implementations trust their inputs. If these break the contract, the error is the contract's. What came from
    outside, such as the handler of a signal, is returned as it is.
    """
    if must_propagate(failure, backend):
        return failure
    if isinstance(failure, PlugradError):
        mark_device_lost(failure, backend)
        if isinstance(failure, ShapeError) and kernel.name not in str(failure):
            # An implementation that broadcasts may notice before the contract is asked.
            broken = _find_broken_contract(kernel, arrays, attrs)
            if broken is not None:
                broken.__cause__ = failure
                return broken
        where = escape_control_characters(f"raised by {kernel_location(kernel.name, backend)}")
        if kernel.name not in str(failure) and where not in getattr(failure, "__notes__", ()):
            failure.add_note(where)
        return failure
    error = _make_explanation(failure, kernel, backend, arrays, attrs)
    error.__cause__ = failure
    return error


def _find_broken_contract(
    kernel: Kernel[..., Any], arrays: Sequence[Any], attrs: Mapping[str, Any]
) -> PlugradError | None:
    """Return the error of the contract for the inputs of a call, or None if they fulfil it."""
    if kernel.inputs:
        try:
            kernel.infer(*arrays, **attrs)
        except PlugradError as error:
            return error
    return None


def _make_explanation(
    failure: BaseException,
    kernel: Kernel[..., Any],
    backend: Backend,
    arrays: Sequence[Any],
    attrs: Mapping[str, Any],
) -> PlugradError:
    """Return the error for a failure that is not plugrad's own: the broken contract, or what the backend raised."""
    where = kernel_location(kernel.name, backend)
    if isinstance(failure, MemoryError):
        return OutOfMemory(f"{where}: {failure}; use smaller batches")
    broken = _find_broken_contract(kernel, arrays, attrs)
    if broken is not None:
        return broken
    if attrs.get("dtype") is string or any(map(holds_strings, arrays)):
        return UnsupportedDtype(f"{where} does not take string; it takes numbers")
    shapes = ", ".join(
        f"{x.dtype}{list(x.shape)}" if hasattr(x, "shape") else short_repr(x)
        for x in arrays
        if x is not backend
    )
    return KernelFailed(
        f"{where} failed on inputs ({shapes}) and attributes {short_repr(dict(attrs))}: {describe_exception(failure)}"
    )
