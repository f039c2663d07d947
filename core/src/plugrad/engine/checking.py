"""Checks of the arrays that implementations return.

The first result of each must be made of the backend's arrays. The setting ``debug`` adds checks to each
call: the results must fit the contract, and the inputs stay unchanged. The setting ``check_finite`` adds
another one: the results of finite inputs must be finite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from plugrad.contract.kernel import get_contract
from plugrad.errors import KernelFailed, NotFinite, PlugradError, TensorIndexError, short_repr
from plugrad.tensor.backend import has_odd_bools
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import as_dtype, bool_, numpy_kind, string

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from plugrad.contract.kernel import Kernel
    from plugrad.tensor.backend import Backend, Implementation


def kernel_location(kernel_name: str, backend: Backend) -> str:
    """Return ``"Relu on backend 'cpu' (plugrad-cpu)"``, which names an implementation in messages."""
    return f"{kernel_name} on backend {backend.name!r} ({backend.distribution})"


def check_result_arrays(
    kernel_name: str, result: Any, backend: Backend, arrays: Sequence[Any], attrs: Mapping[str, Any]
) -> None:
    """Raise unless a kernel returned as many arrays as its contract says, each with a shape and a dtype.

    Raises:
        KernelFailed: the message names the kernel, the backend and the distribution.
    """
    where = kernel_location(kernel_name, backend)
    contract = get_contract(kernel_name)
    outputs = cast("Sequence[Any]", result if type(result) in (list, tuple) else [result])
    if contract is not None:
        try:
            promised = contract.infer(*(arrays if contract.inputs else ()), **attrs)
        except PlugradError:  # the implementation takes more than the contract
            promised = None
        if promised is not None:
            outputs = _check_output_count(result, promised, where)
    types: set[type] = {type(x) for x in arrays if x is not None and x is not backend}
    for output in outputs:
        _check_output_array(output, types, where)


def _check_output_count(result: Any, promised_specs: Any, location: str) -> Sequence[Any]:
    """Return the outputs as a sequence, or raise if their number is not the contract's."""
    if hasattr(promised_specs, "dtype"):
        return [result]
    if not isinstance(result, list | tuple) or len(cast("Sequence[Any]", result)) != len(
        promised_specs
    ):
        raise KernelFailed(
            f"{location} must return {len(promised_specs)} outputs, not {short_repr(result)}"
        )
    return cast("Sequence[Any]", result)


def _check_output_array(output: Any, input_types: set[type], location: str) -> None:
    """Raise unless an output is an array with a shape and a dtype, of NumPy only if an input is, too."""
    if isinstance(output, Tensor):
        raise KernelFailed(f"{location} returned a Tensor; it must return an array of the backend")
    shape, dtype = getattr(output, "shape", None), getattr(output, "dtype", None)
    if not isinstance(shape, tuple) or dtype is None:
        raise KernelFailed(
            f"{location} returned a {type(output).__name__}, which does not have a shape and a dtype; it must return "
            "an array of the backend"
        )
    is_numpy = isinstance(output, np.ndarray | np.generic) and as_dtype(dtype) is not string
    if (
        is_numpy
        and input_types
        and not any(issubclass(t, np.ndarray | np.generic) for t in input_types)
    ):
        raise KernelFailed(
            f"{location} returned a NumPy array; its inputs are {', '.join(sorted(t.__name__ for t in input_types))}, "
            "and so must be the result"
        )


def with_contract_checks(
    kernel_name: str, function: Implementation, backend: Backend
) -> Implementation:
    """Wrap an implementation to raise `KernelFailed` if its result breaks the kernel's contract.

    It checks the number, the shapes and the dtypes of the outputs, and that the inputs stay unchanged.
    Positions out of range raise `TensorIndexError`, which not every device can do. A kernel without a
    contract is checked for unchanged inputs only.
    """
    contract = get_contract(kernel_name)

    def implementation(*arrays: Any, **attrs: Any) -> Any:
        before = [_copy_to_host(x, backend) for x in arrays]
        _check_positions(kernel_name, _iter_index_arguments(contract, before, attrs))
        result = function(*arrays, **attrs)
        where = kernel_location(kernel_name, backend)
        check_result_arrays(kernel_name, result, backend, arrays, attrs)
        if contract is not None:
            promised = contract.infer(*(arrays if contract.inputs else ()), **attrs)
            several = not hasattr(promised, "dtype")
            _compare_with_contract(
                cast("Sequence[Any]", result) if several else [result],
                promised if several else [promised],
                contract,
                where,
            )
        _check_bool_bytes(result, backend, where)
        for i, (x, values) in enumerate(zip(arrays, before, strict=True)):
            if values is not None and not _are_equal(values, _copy_to_host(x, backend)):
                name = repr(contract.input_name(i)) if contract is not None else str(i)
                raise KernelFailed(
                    f"{where} has changed its input {name}; other tensors may have the same array, so "
                    "the implementation must work on a copy"
                )
        return result

    return implementation


def _check_bool_bytes(result: Any, backend: Backend, location: str) -> None:
    """Raise if a result holds bools with other bytes than 0 and 1, which other kernels may count."""
    outputs = cast("Sequence[Any]", result if type(result) in (list, tuple) else [result])
    for output in outputs:
        if as_dtype(output.dtype) is bool_ and has_odd_bools(np.asarray(backend.to_numpy(output))):
            raise KernelFailed(
                f"{location} returned bools with other bytes than 0 and 1; it must return comparisons, such as x != 0"
            )


def with_finite_checks(
    kernel_name: str, function: Implementation, backend: Backend
) -> Implementation:
    """Wrap an implementation to raise `NotFinite` if it returns NaN or infinity for finite inputs.

    So the kernel that the error names is the first one. What has no inputs, such as a constant, passes.
    """
    contract = get_contract(kernel_name)

    def implementation(*arrays: Any, **attrs: Any) -> Any:
        result = function(*arrays, **attrs)
        inputs = [
            (i, backend.to_numpy(x))
            for i, x in enumerate(arrays)
            if not (x is None or x is backend or _holds_strings(x))
        ]
        if not inputs or not all(_is_finite(values) for _, values in inputs):
            return result
        outputs = cast("Sequence[Any]", result if type(result) in (list, tuple) else [result])
        for output in outputs:
            if _holds_strings(output):
                continue
            values = backend.to_numpy(output)
            if not _is_finite(values):
                where = np.argwhere(~np.isfinite(values))
                given = "; ".join(
                    f"{contract.input_name(i) if contract is not None else i}: {_describe_array(x)}"
                    for i, x in inputs
                )
                raise NotFinite(
                    f"{kernel_location(kernel_name, backend)} returned {len(where)} of "
                    f"{values.size} elements that are NaN or "
                    f"infinite, the first of them {values[tuple(where[0])]} at {where[0].tolist()}; its inputs are "
                    f"finite: {given}; its attributes are {short_repr(dict(attrs))}"
                )
        return result

    return implementation


def _holds_strings(x: Any) -> bool:
    return as_dtype(x.dtype) is string


def _is_finite(values: Any) -> bool:
    return numpy_kind(values.dtype) not in "fc" or bool(np.isfinite(values).all())


def _describe_array(values: Any) -> str:
    """Return the dtype, the shape and the range of an array as text."""
    about = f"{values.dtype} of shape {values.shape}"
    if not values.size or values.dtype.kind == "c":
        return about
    return f"{about} from {values.min()} to {values.max()}"


def _copy_to_host(x: Any, backend: Backend) -> Any:
    """Return a host copy of an input; None for an absent input and for the backend itself."""
    return None if x is None or x is backend else np.array(backend.to_numpy(x))


def _iter_index_arguments(
    contract: Kernel[..., Any] | None, arrays: Sequence[Any], attrs: Mapping[str, Any]
) -> Iterator[tuple[int, int, Any]]:
    """Yield (axis, size, positions) for each axis that a call indexes by an array of positions."""
    match contract and contract.name:
        case "GatherV2":
            axis = attrs["axis"]
            yield axis, arrays[0].shape[axis], arrays[1]
            return
        case "GatherNd":
            shape, rows = arrays[0].shape, arrays[1]
        case "ScatterNd":
            shape, rows = attrs["shape"], _as_coordinate_rows(arrays[0])
        case "TensorScatterUpdate":
            shape, rows = arrays[0].shape, _as_coordinate_rows(arrays[1])
        case "SparseToDense":
            shape, rows = attrs["output_shape"], _as_coordinate_rows(arrays[0])
        case "CropAndResize":
            shape, rows = arrays[0].shape, _as_coordinate_rows(arrays[2])
        case "CropAndResizeGradImage":
            shape, rows = attrs["image_shape"], _as_coordinate_rows(arrays[2])
        case _:
            return
    for axis in range(rows.shape[-1]):
        yield axis, shape[axis], rows[..., axis]


def _as_coordinate_rows(indices: Any) -> Any:
    """Return rows of coordinates; an array with fewer axes holds positions along the first axis."""
    return indices if indices.ndim > 1 else indices[..., None]


def _check_positions(kernel_name: str, index_arguments: Iterator[tuple[int, int, Any]]) -> None:
    """Raise for a position out of range; without this, some devices read 0 there and write nothing.

    Raises:
        TensorIndexError: there is one.
    """
    for axis, size, places in index_arguments:
        wrong = places[(places < -size) | (places >= size)]
        if wrong.size:
            raise TensorIndexError(
                f"{kernel_name}: index {wrong.flat[0]} is out of range for axis {axis} of size {size}"
            )


def _are_equal(a: Any, b: Any) -> bool:
    return bool(np.array_equal(a, b, equal_nan=numpy_kind(a.dtype) in "fc"))


def _compare_with_contract(
    outputs: Sequence[Any], promised_specs: Sequence[Any], contract: Kernel[..., Any], location: str
) -> None:
    """Raise unless the outputs have the shapes and dtypes that the contract promises."""
    for output, spec in zip(outputs, promised_specs, strict=True):
        if as_dtype(output.dtype) is not spec.dtype:
            raise KernelFailed(
                f"{location} returned {output.dtype}; the contract says {spec.dtype}"
            )
        if not contract.dynamic_shape and tuple(output.shape) != spec.shape:
            raise KernelFailed(
                f"{location} returned shape {tuple(output.shape)}; the contract says {spec.shape}"
            )
