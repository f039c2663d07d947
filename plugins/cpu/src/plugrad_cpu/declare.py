"""What the families share: the table of kernels, fast paths, marks of implementations, and the dtype of sums."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from plugrad.extend import Implementation, Kernel, KernelConfig, KernelTable

Array = NDArray[Any]
"""The type of arrays: NumPy arrays of any dtype."""
table = KernelTable("cpu")
"""The implementations of this backend; importing a module of kernels adds to it."""


Function = TypeVar("Function", bound=Callable[..., Any])
"""The type of a decorated function."""
_marked_functions: Final[set[int]] = set()
"""The identities of functions that `mark_results_tracked` has marked."""


def mark_results_tracked(function: Function) -> Function:
    """Mark an implementation whose results are tracked already: they are views, or come from `empty` or `zeros`.

    NumPy's own arrays are such results after a call of `track_allocation`.
    """
    _marked_functions.add(id(function))
    return function


def are_results_tracked(function: Callable[..., Any]) -> bool:
    """Return whether `mark_results_tracked` has marked an implementation."""
    return id(function) in _marked_functions


class FastPath(NamedTuple):
    """An implementation of a kernel that computes some calls quickly, and passes on all other calls."""

    make: Callable[[Implementation], Implementation]
    """The function that, given another implementation, returns one that passes all other calls on to it."""
    pack: KernelTable
    """The table of the kernels of the pack that has registered the fast path."""
    equivalent_implementations: tuple[Implementation, ...]
    """The implementations with the same results; if any other is in effect, the fast path is not used."""


_fast_paths: Final[dict[str, FastPath]] = {}
"""The registered fast paths, by the name of the kernel."""


def register_fast_path(
    kernel: Kernel[..., Any],
    make: Callable[[Implementation], Implementation],
    pack: KernelTable,
    *equivalent_implementations: Implementation,
) -> None:
    """Register a function that computes the calls of some inputs, before any implementation is chosen.

    Args:
        kernel: the kernel.
        make: returns that function, which calls its argument for all other inputs. Its own results are tracked already,
            or too small to be.
        pack: the kernels of the pack to which the function belongs. Where they are not in effect, it is not used.
        equivalent_implementations: the implementations that give the same results. If another one is in effect, the
            function is not used.
    """
    _fast_paths[kernel.name] = FastPath(make, pack, equivalent_implementations)


def with_fast_path(
    tables: Iterable[Mapping[str, KernelConfig]],
    configs: Sequence[KernelConfig],
    function: Implementation,
) -> Implementation:
    """Return an implementation that tries the fast path of a kernel pack, if a table has one, before `function`."""
    fast_path = _fast_paths.get(configs[0].kernel_name)
    if fast_path is None or not any(_holds_pack(table, fast_path.pack) for table in tables):
        return function
    for config in configs:
        if not any(config.kernel_func is known for known in fast_path.equivalent_implementations):
            return function
        if not config.is_conditional:
            break
    return fast_path.make(function)


def _holds_pack(table: Mapping[str, KernelConfig], pack: KernelTable) -> bool:
    """Return whether a table of a device was made from the kernels of a pack."""
    first = next(iter(pack))
    config = table.get(first.kernel_name)
    return config is not None and config.kernel_func is first.kernel_func


def accumulation_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which to accumulate sums: float32 for float16, in which 2048 + 1 is 2048."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype
