"""NumPy implementations ("bodies") of kernels that gain nothing from a device, for backends to register.

A body takes and returns NumPy arrays, whatever the backend's own arrays are. It checks the values,
which the contract does not know. There is one module per family.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad.importing import imported

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from numpy.typing import NDArray

    from plugrad.contract.kernel import Kernel
    from plugrad.tensor.backend import Implementation


def host_bodies(contracts: ModuleType) -> Mapping[Kernel[..., Any], Implementation]:
    """Return the NumPy bodies of the kernels of a family, for a backend's table.

    >>> from plugrad.extend import KernelTable, host_bodies
    >>> from plugrad.kernels import sparse
    >>> table = KernelTable("mine")
    >>> table.update(host_bodies(sparse), on_host=True)
    >>> len(table)
    4
    """
    family = contracts.__name__.rpartition(".")[2]
    return imported(f"plugrad.host.{family}").BODIES


def shown(values: NDArray[Any]) -> str:
    """Return values as text for a message, without the middle of a long list.

    >>> shown(np.arange(100))
    '[0, 1, 2, ..., 97, 98, 99]'
    """
    return np.array2string(values, separator=", ", threshold=20, formatter={"all": str})
