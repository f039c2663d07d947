"""The extension module that is compiled for this processor."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

BASELINE_VARIANTS: Final = ("_v2", "_neon")
"""The names of the variants for all x86-64 and all arm64 processors; the installed one tells the processor's level."""
OPTIONAL_VARIANTS: Final = ("_v4", "_v3")
"""The names of the variants for x86-64 processors of level 4 and of level 3."""


CompiledFunction: TypeAlias = "Callable[..., Any] | tuple[np.ufunc, int] | None"
"""A C function of the extension, or a ufunc of NumPy and the index of its loop; None where none is needed."""
Layout: TypeAlias = Literal[
    "each",
    "pairs",
    "cast",
    "axes",
    "indices",
    "scan",
    "rows",
    "band",
    "largest",
    "view",
    "new axis",
    "take",
    "fill",
]
"""The form of a C function's arguments beside arrays, such as axes: see ``extension/small_results.h``."""


class Variant(Protocol):
    """An extension module: the same sources compiled for one level of processors."""

    VECTOR_BYTES: int
    """The size of a vector register in bytes."""

    def kernel(self, name: str, /) -> Callable[..., Any]:
        """Return the C function with this name as a Python function with the same arguments.

        ``extension/exports.txt`` lists the functions that the extension has; ``make pages`` writes it.
        """
        ...

    def make_small_result_function(
        self,
        layout: Layout,
        functions: tuple[tuple[np.dtype[Any], CompiledFunction, np.dtype[Any]], ...],
        max_elements: int,
        fallback: Callable[..., NDArray[Any]],
        attribute_names: tuple[str, ...],
        ufunc_type: type,
        allocate: Callable[[tuple[int, ...], np.dtype[Any]], NDArray[Any]],
        /,
    ) -> Callable[..., NDArray[Any]]:
        """Return an implementation that computes small results by C functions: see ``extension/small_results.h``."""
        ...

    def make_small_concatenation(
        self,
        is_stack: bool,
        dtypes: tuple[np.dtype[Any], ...],
        max_bytes: int,
        fallback: Callable[..., NDArray[Any]],
        /,
    ) -> Callable[..., NDArray[Any]]:
        """Return an implementation of concatenation or stacking that handles small arrays in C."""
        ...

    def make_program(
        self,
        table_words: NDArray[np.int64],
        buffer_sizes: NDArray[np.int64],
        functions: tuple[Any, ...],
        constants: tuple[NDArray[Any], ...],
        ufunc_type: type,
        /,
    ) -> Callable[..., None]:
        """Return a function that runs a program table, as ``extension/program.h`` describes."""
        ...

    def run_calls_in_threads(
        self,
        ufunc_type: type,
        processor_count: int,
        calls: tuple[tuple[Any, ...], ...],
        max_threads: int,
        /,
    ) -> bool:
        """Run calls in up to `max_threads` threads of C, if these know all functions called; return whether they do.

        Otherwise none runs. A call is a function and its arguments: a kernel, a program, or a ufunc with vectors, of
        which the last one is the result.
        """
        ...

    def run_parts_in_threads(
        self,
        ufunc_type: type,
        processor_count: int,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        argument_steps: tuple[int, ...],
        count_position: int,
        item_count: int,
        part_size_multiple: int,
        part_count: int,
        max_threads: int,
        /,
    ) -> bool:
        """Divide one call among up to `max_threads` threads of C, if these know the function; return whether they do.

        See `ThreadPool.run_in_parts` of plugrad-cpu.
        """
        ...

    def forget_threads(self) -> object:
        """Forget the threads of C, which do not exist in a forked child."""
        ...

    def x86_64_level(self) -> int:
        """Return the highest x86-64 level that the processor supports, or 0 on other processors."""
        ...


def has_any_variant() -> bool:
    """Return whether extension modules are installed."""
    return any(find_spec(f"plugrad_native.{name}") for name in BASELINE_VARIANTS)


@cache
def current_variant() -> Variant:
    """Return the extension module for this processor."""
    baseline = next(name for name in BASELINE_VARIANTS if find_spec(f"plugrad_native.{name}"))
    level = load_variant(baseline).x86_64_level()
    better = [name for name in OPTIONAL_VARIANTS if int(name.removeprefix("_v")) <= level]
    return load_variant([*better, baseline][0])


def load_variant(name: str) -> Variant:
    """Import the extension module of a variant, given its name."""
    return cast("Variant", import_module(f"plugrad_native.{name}"))
