"""The choice between implementations: one is meant for some inputs, and the next one takes all others."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from plugrad.types.dtype import as_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from plugrad.types.dtype import DType

    Implementation = Callable[..., Any]

BROADCAST_MIN_BYTES = 1 << 17
"""The smallest number of bytes of the largest input for which `broadcast_dtypes` matters."""


def choose_implementation(
    function: Implementation,
    next_implementation: Implementation,
    dtypes: frozenset[DType] | None,
    broadcast_dtypes: frozenset[DType],
    min_bytes: int,
) -> Implementation:
    """Return a function that calls one implementation if the conditions hold, else the next one.

    `KernelConfig` explains the conditions.

    Args:
        function: what runs where the conditions hold.
        next_implementation: what runs for all other inputs.
        dtypes: the dtypes of the first input; None for all.
        broadcast_dtypes: more dtypes of the first input, for inputs that are broadcast to a large result.
        min_bytes: the smallest number of bytes of all inputs together.
    """
    # Arrays may carry dtypes of NumPy.
    meant = None if dtypes is None else {spelling for d in dtypes for spelling in (d, d.numpy)}
    meant_if_broadcast = {spelling for d in broadcast_dtypes for spelling in (d, d.numpy)}

    def is_meant(arrays: Sequence[Any]) -> bool:
        """Return whether the conditions hold for the input arrays of a call."""
        given = [x for x in arrays if x is not None]
        if min_bytes and sum(map(array_nbytes, given)) < min_bytes:
            return False
        if meant is None or given[0].dtype in meant:
            return True
        return given[0].dtype in meant_if_broadcast and _are_broadcast(given)

    def implementation(*arrays: Any, **attrs: Any) -> Any:
        """Call the implementation that is meant for the input arrays."""
        return (function if is_meant(arrays) else next_implementation)(*arrays, **attrs)

    return implementation


def dispatch_on_dtype(
    dtypes: Collection[DType], function: Implementation, other_function: Implementation
) -> Implementation:
    """Return an implementation that calls a function if any input has one of the dtypes, and else another function."""
    known: set[object] = {spelling for d in dtypes for spelling in (d, d.numpy)}

    def implementation(*arrays: Any, **attrs: Any) -> Any:
        """Call the function for the dtypes of the input arrays."""
        for x in arrays:
            if x is not None and x.dtype in known:
                return function(*arrays, **attrs)
        return other_function(*arrays, **attrs)

    return implementation


def _are_broadcast(arrays: Sequence[Any]) -> bool:
    """Return whether inputs have different numbers of elements, none has only one, and the largest has enough bytes."""
    sizes = [prod(x.shape) for x in arrays]
    return (
        min(sizes) > 1
        and min(sizes) != max(sizes)
        and max(map(array_nbytes, arrays)) >= BROADCAST_MIN_BYTES
    )


def array_nbytes(array: Any) -> int:
    """Return the number of bytes of a backend array."""
    nbytes = getattr(array, "nbytes", None)
    return prod(array.shape) * as_dtype(array.dtype).itemsize if nbytes is None else nbytes
