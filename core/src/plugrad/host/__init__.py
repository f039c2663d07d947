"""NumPy implementations ("bodies") of kernels that gain nothing from a device, for backends to register.

A body takes and returns NumPy arrays, whatever the backend's own arrays are. It checks the values,
which the contract does not know. There is one module per family.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad.errors import ArgumentError, short_repr as described
from plugrad.importing import import_lazily, list_module_names

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from numpy.typing import NDArray

    from plugrad.contract.kernel import Kernel
    from plugrad.tensor.backend import Implementation


def host_implementations(contracts: ModuleType) -> Mapping[Kernel[..., Any], Implementation]:
    """Return the NumPy implementations of a family's kernels, for a backend's table; most families have none.

    >>> from plugrad.extend import KernelTable, host_implementations
    >>> from plugrad.kernels import sparse
    >>> table = KernelTable("mine")
    >>> table.update(host_implementations(sparse), on_host=True)
    >>> len(table)
    4
    >>> from plugrad.kernels import unary
    >>> host_implementations(unary)
    {}

    Args:
        contracts: the module of a family of contracts in `plugrad.kernels`.

    Raises:
        ArgumentError: `contracts` is not such a module.
    """
    package, _, family = getattr(contracts, "__name__", "").rpartition(".")
    if package != "plugrad.kernels":
        raise ArgumentError(
            "host_implementations takes a family of contracts, such as plugrad.kernels.sparse, "
            f"not {described(contracts)}"
        )
    return (
        import_lazily(f"{__name__}.{family}").HOST_IMPLEMENTATIONS
        if family in list_module_names(__name__)
        else {}
    )


def format_values(values: NDArray[Any]) -> str:
    """Format values for a message; a long list is shortened in the middle.

    >>> format_values(np.arange(100))
    '[0, 1, 2, ..., 97, 98, 99]'
    """
    return np.array2string(values, separator=", ", threshold=20, formatter={"all": str})
