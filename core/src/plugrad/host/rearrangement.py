"""Shapes that are given as values, which are known only on the host."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from plugrad.contract.kernel import Kernel
from plugrad.kernels import rearrangement
from plugrad.types.shapes import broadcast

Array = NDArray[Any]
"""A NumPy array of any dtype and shape."""


def broadcast_args(s0: Array, s1: Array) -> Array:
    """Return the shape to which both shapes broadcast."""
    return np.asarray(broadcast(tuple(s0.tolist()), tuple(s1.tolist())), s0.dtype)


HOST_IMPLEMENTATIONS: Final[dict[Kernel[..., Any], Any]] = {
    rearrangement.broadcast_args: broadcast_args
}
"""By kernel, the NumPy function that computes it."""
