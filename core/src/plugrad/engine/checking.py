"""The checks that the setting ``debug`` adds to each kernel call: the results must fit the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from plugrad.contract.kernel import KERNELS
from plugrad.errors import KernelFailed
from plugrad.types.dtype import as_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.contract.kernel import Kernel
    from plugrad.tensor.backend import Backend, Implementation


def checked(kernel_name: str, function: Implementation, backend: Backend) -> Implementation:
    """Return a function that raises `KernelFailed` if `function` breaks the kernel's contract.

    It checks the number, the shapes and the dtypes of the outputs, and that the inputs stay unchanged.
    A kernel without a contract is not checked.
    """
    contract = KERNELS.get(kernel_name)
    if contract is None:
        return function

    def implementation(*arrays: Any, **attrs: Any) -> Any:
        before = [_values(x, backend) for x in arrays]
        result = function(*arrays, **attrs)
        given = arrays if contract.inputs else ()
        promised = contract.infer(*given, **attrs)
        several = not hasattr(promised, "dtype")
        where = f"{kernel_name} on backend {backend.name!r} ({backend.distribution})"
        _compare(
            cast("Sequence[Any]", result) if several else [result],
            promised if several else [promised],
            contract,
            where,
        )
        for name, x, values in zip(range(len(arrays)), arrays, before, strict=True):
            if values is not None and not _equal(values, _values(x, backend)):
                raise KernelFailed(
                    f"{where} has changed its input {contract.input_name(name)!r}; tensors are immutable, so the "
                    "implementation must work on a copy"
                )
        return result

    return implementation


def _values(x: Any, backend: Backend) -> Any:
    """Return a copy of an input on the host, or None for an absent input and for the backend itself."""
    return None if x is None or x is backend else np.array(backend.to_numpy(x))


def _equal(a: Any, b: Any) -> bool:
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"))


def _compare(
    outputs: Sequence[Any], promised: Sequence[Any], contract: Kernel[..., Any], where: str
) -> None:
    if not isinstance(outputs, list | tuple) or len(outputs) != len(promised):
        raise KernelFailed(f"{where} must return {len(promised)} outputs, not {outputs!r:.100}")
    for output, spec in zip(outputs, promised, strict=True):
        shape, dtype = getattr(output, "shape", None), getattr(output, "dtype", None)
        if shape is None or dtype is None:
            raise KernelFailed(
                f"{where} returned a {type(output).__name__}, which does not have a shape and a dtype; it must return "
                "an array of the backend"
            )
        if as_dtype(dtype) is not spec.dtype:
            raise KernelFailed(f"{where} returned {dtype}; the contract says {spec.dtype}")
        if not contract.dynamic_shape and tuple(shape) != spec.shape:
            raise KernelFailed(f"{where} returned shape {shape}; the contract says {spec.shape}")
