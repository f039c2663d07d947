"""The table of the CPU's kernels, and the type of its arrays."""

from typing import Any

from numpy.typing import NDArray

from plugrad.extend import KernelTable

Array = NDArray[Any]
table = KernelTable("cpu")
