"""The implementation for the cpu backend: a function of NumPy arrays."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plugrad.extend import KernelTable
from plugrad_acme_ops import contracts

table = KernelTable("cpu")


@table.implements(contracts.swiglu)
def swiglu(gate: NDArray[Any], up: NDArray[Any]) -> NDArray[Any]:
    """Return gate / (1 + exp(-gate)) * up."""
    with np.errstate(over="ignore"):
        return gate / (1 + np.exp(-gate)) * up


def kernels() -> KernelTable:
    """Return the kernels; plugrad calls this function when the cpu backend is loaded."""
    return table
