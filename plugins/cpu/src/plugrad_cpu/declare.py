"""The table of the CPU's kernels, the type of its arrays, and what to add them up in."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plugrad.extend import KernelTable

Array = NDArray[Any]
table = KernelTable("cpu")


def roomy(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype to add many numbers in: float32 for float16, in which 2048 + 1 is 2048."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype
