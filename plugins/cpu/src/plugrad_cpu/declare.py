"""The table of kernels, the type of arrays, and the dtype in which sums are computed."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from plugrad.extend import KernelTable

Array = NDArray[Any]
table = KernelTable("cpu")


Function = TypeVar("Function", bound=Callable[..., Any])
_tracked: Final[set[int]] = set()
"""The identities of functions that `tracked` has marked."""


def tracked(function: Function) -> Function:
    """Mark an implementation whose results need not be tracked: they are views, or come from `empty` or `zeros`.

    NumPy's own arrays are such results after a call of `track_allocation`.
    """
    _tracked.add(id(function))
    return function


def is_tracked(function: Callable[..., Any]) -> bool:
    """Return whether an implementation is marked as `tracked`."""
    return id(function) in _tracked


def accumulation_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which to accumulate sums: float32 for float16, in which 2048 + 1 is 2048."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype
