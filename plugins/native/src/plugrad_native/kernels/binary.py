"""Elementwise kernels of two tensors: those of float16, which are computed in single precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.kernels import binary
from plugrad_native.declare import FLOAT16, combined, exports, for_dtypes, table

if TYPE_CHECKING:
    from plugrad.extend import Implementation
    from plugrad_native.declare import Array

BOOL: Final = np.dtype(np.bool_)
RESULTS: Final[dict[str, np.dtype[Any] | None]] = {
    "add": None,
    "subtract": None,
    "multiply": None,
    "divide": None,
    "squared_difference": None,
    "maximum": None,
    "minimum": None,
    "equal": BOOL,
    "not_equal": BOOL,
    "less": BOOL,
    "less_equal": BOOL,
}
"""The dtypes of results, if they are not those of the operands, by the names of functions in C."""


def in_half(name: str, result: np.dtype[Any] | None) -> Implementation:
    """Return the implementation of a kernel by functions of float16."""
    functions, broadcast = exports(name, "float16"), exports(name, "float16", suffix="_broadcast")
    return combined(vars(binary)[name], functions, broadcast, result)


def swapped(implementation: Implementation) -> Implementation:
    """Return an implementation whose operands change places."""

    def of_two(a: Array, b: Array) -> Array:
        return implementation(b, a)

    return of_two


brought = {vars(binary)[name]: in_half(name, result) for name, result in RESULTS.items()}
brought[binary.greater] = swapped(brought[binary.less])
brought[binary.greater_equal] = swapped(brought[binary.less_equal])
table.update({kernel: for_dtypes([FLOAT16], function) for kernel, function in brought.items()})
