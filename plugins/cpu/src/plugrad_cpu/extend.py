"""What a kernel pack for the cpu backend may import: memory, threads, and NumPy's implementations.

The arrays of the backend are NumPy arrays, and implementations take and return those. A pack may make all its
arrays with NumPy: the backend then tracks the large ones when an implementation returns. `empty` and
`zeros` take their memory from a pool instead, which saves the time in which the operating system clears it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.extend import KernelNotFound
from plugrad_cpu.declare import (
    are_results_tracked as are_results_tracked,
    mark_results_tracked as mark_results_tracked,
    register_fast_path as register_fast_path,
)
from plugrad_cpu.kernels import table as _table
from plugrad_cpu.kernels.fused import add_bias_and_activate as add_bias_and_activate
from plugrad_cpu.kernels.indexing import flat_positions as flat_positions
from plugrad_cpu.kernels.linalg import is_exact_in_float64 as is_exact_in_float64
from plugrad_cpu.kernels.movement import (
    copy_elements as copy_elements,
    join_adjacent_views as join_adjacent_views,
)
from plugrad_cpu.kernels.random import drop_elements as drop_elements
from plugrad_cpu.memory import (
    empty as empty,
    empty_like as empty_like,
    make_room as make_room,
    owns_memory as owns_memory,
    track_allocation as track_allocation,
    zeros as zeros,
)
from plugrad_cpu.products import multiply_matrices as multiply_matrices
from plugrad_cpu.sharing import fill_in_threads as fill_in_threads
from plugrad_cpu.threads import (
    PARTS_PER_THREAD as PARTS_PER_THREAD,
    Call as Call,
    CompiledThreads as CompiledThreads,
    count_processors as count_processors,
    thread_pool as thread_pool,
)

if TYPE_CHECKING:
    from plugrad.extend import Implementation, Kernel

_numpy_implementations = {config.kernel_name: config.kernel_func for config in _table}
"""By the name of a kernel: its implementation in NumPy."""


def numpy_implementation(kernel: Kernel[..., Any]) -> Implementation:
    """Return the backend's own implementation of a kernel, in NumPy.

    An implementation calls it for inputs that it does not take, where `KernelConfig` cannot say so.

    >>> import numpy as np
    >>> from plugrad.kernels import unary
    >>> float(numpy_implementation(unary.square)(np.float32(3)))
    9.0

    Raises:
        KernelNotFound: the backend has none.
    """
    if kernel.name not in _numpy_implementations:
        raise KernelNotFound(
            f"the cpu backend does not implement {kernel.name!r}; a pack that does so must take all inputs itself"
        )
    return _numpy_implementations[kernel.name]
