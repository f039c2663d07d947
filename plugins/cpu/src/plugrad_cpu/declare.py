"""The table of kernels, the type of arrays, and the dtype in which sums are computed."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from plugrad.extend import KernelTable

Array = NDArray[Any]
table = KernelTable("cpu")


Function = TypeVar("Function", bound=Callable[..., Any])
counting: Final[set[int]] = set()
"""The identities of functions whose large results are counted already: they are views, or come from the pool."""


def counted(function: Function) -> Function:
    """Note that nobody has to count the results of an implementation; see `counting`."""
    counting.add(id(function))
    return function


def roomy(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which to sum numbers: float32 for float16, in which 2048 + 1 is 2048."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype
