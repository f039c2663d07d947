"""The table of kernels, the type of arrays, and the dtype in which sums are computed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plugrad.extend import KernelTable

Array = NDArray[Any]
table = KernelTable("cpu")


def roomy(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which to sum numbers: float32 for float16, in which 2048 + 1 is 2048."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype
