"""Kernels of narrow dtypes: they are computed in wider ones, and their results are cast as the contract promises."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Final, cast

from plugrad.contract.kernel import Kernel
from plugrad.kernels import binary, creation, indexing, movement, rearrangement, scatter, unary
from plugrad.types.dtype import float32

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from plugrad.tensor.backend import Implementation
    from plugrad.types.dtype import DType
    from plugrad.types.specs import Spec

DATA_MOVEMENT_KERNELS: Final[frozenset[str]] = frozenset(
    kernel.name
    for kernel in (
        *(value for family in (movement, rearrangement) for value in vars(family).values()),
        *(creation.fill, creation.ones_like, creation.zeros_like),
        *(indexing.gather, indexing.gather_nd, indexing.one_hot, scatter.tensor_scatter_update),
        *(binary.next_after, unary.cast, unary.identity),
    )
    if isinstance(kernel, Kernel)
)
"""The kernels that can take halves as they are: they move elements, convert them, or look at their bits."""


def compute_in_float32(
    kernel: Kernel[..., Any],
    function: Implementation,
    cast_to: Implementation,
    halves: Collection[DType],
) -> Implementation:
    """Return an implementation that also takes the dtypes `halves`: it computes in float32, and rounds results once.

    Args:
        kernel: the contract.
        function: the implementation for float32.
        cast_to: the implementation of the kernel "Cast" of the same backend, for these dtypes.
        halves: the dtypes that are computed so.
    """
    wider = {spelling: float32 for d in halves for spelling in (d, d.numpy)}
    return compute_in_wider_dtype(kernel, function, cast_to, wider)


def compute_in_wider_dtype(
    kernel: Kernel[..., Any],
    function: Implementation,
    cast_to: Implementation,
    wider: Mapping[Any, DType],
) -> Implementation:
    """Return an implementation that also takes narrower dtypes: it casts inputs to wider ones, and results back.

    Inputs, and an attribute ``dtype``, are cast. Of the results, those are cast back of which the contract
    says so: a kernel that counts, compares or casts returns what it returns for the wider dtype.

    Args:
        kernel: the contract.
        function: the implementation for the wider dtypes.
        cast_to: the implementation of the kernel "Cast" of the same backend, for all these dtypes.
        wider: the wider dtypes, by the dtypes that are computed in them; if arrays of the backend spell dtypes in
            another way, by that spelling, too.
    """
    has_dtype = "dtype" in kernel.attributes

    def widen(x: Any) -> Any:
        """Return an input array in the wider dtype; None stays None."""
        return cast_to(x, dtype=wider[x.dtype]) if x is not None and x.dtype in wider else x

    def cast_back(y: Any, spec: Spec) -> Any:
        """Return a result in the dtype that the contract promises."""
        return cast_to(y, dtype=spec.dtype) if spec.dtype in wider else y

    @wraps(function)
    def implementation(*arrays: Any, **attrs: Any) -> Any:
        for x in arrays:
            if x is not None and x.dtype in wider:
                break
        else:
            if not has_dtype or attrs["dtype"] not in wider:
                return function(*arrays, **attrs)
        result = function(*map(widen, arrays), **widen_attributes(attrs))
        return cast_results(result, kernel.infer_cached(arrays, attrs))

    def run_without_inputs(backend: Any, **attrs: Any) -> Any:
        if attrs.get("dtype") not in wider:
            return function(backend, **attrs)
        return cast_results(
            function(backend, **widen_attributes(attrs)), kernel.infer_cached((), attrs)
        )

    def widen_attributes(attrs: dict[str, Any]) -> dict[str, Any]:
        if not has_dtype or attrs["dtype"] not in wider:
            return attrs
        return attrs | {"dtype": wider[attrs["dtype"]]}

    def cast_results(result: Any, promised: Any) -> Any:
        if hasattr(promised, "dtype"):
            return cast_back(result, promised)
        parts = cast("Sequence[Any]", result)
        return [cast_back(y, spec) for y, spec in zip(parts, promised, strict=True)]

    return implementation if kernel.inputs else run_without_inputs
