"""Positions of true elements, the number of which depends on the values."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from plugrad.contract.kernel import Kernel
from plugrad.kernels import indexing
from plugrad.types.dtype import position_dtype

Array = NDArray[Any]
"""A NumPy array of any dtype and shape."""


def where_true(condition: Array) -> Array:
    """Return the coordinates of the true elements."""
    return np.argwhere(condition).astype(position_dtype(max(condition.shape, default=0)).numpy)


HOST_IMPLEMENTATIONS: Final[dict[Kernel[..., Any], Any]] = {indexing.where_true: where_true}
"""By kernel, the NumPy function that computes it."""
