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
"""The variant that runs on all processors, for each architecture; it tells what this one can do."""
OPTIONAL_VARIANTS: Final = ("_v4", "_v3")
"""The variants for x86-64 processors of a level."""


CompiledFunction: TypeAlias = "Callable[..., Any] | tuple[np.ufunc, int] | None"
"""A C function of the extension, or a ufunc of NumPy and the number of one of its loops; None where none is needed."""
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
"""What C functions take behind the arrays; ``extension/small_results.h`` tells."""


class Variant(Protocol):
    """An extension module: the same sources compiled for one level of processors."""

    VECTOR_BYTES: int

    def kernel(self, name: str, /) -> Callable[..., Any]:
        """Return the Python wrapper of a C function, which takes the arguments of the C function.

        Only those in ``extension/exports.txt`` are there; ``make pages`` writes into it what the pack asks for.

        Raises:
            AttributeError: the extension was built without it.
        """
        ...

    def make_small_result_function(
        self,
        how: Layout,
        variants: tuple[tuple[np.dtype[Any], CompiledFunction, np.dtype[Any]], ...],
        most: int,
        otherwise: Callable[..., NDArray[Any]],
        names: tuple[str, ...],
        ufunc_type: type,
        allocate: Callable[[tuple[int, ...], np.dtype[Any]], NDArray[Any]],
        /,
    ) -> Callable[..., NDArray[Any]]:
        """Return an implementation that computes small results in C, as ``extension/small_results.h`` describes.

        Raises:
            ValueError: the functions do not take the arguments that it has.
        """
        ...

    def make_small_concatenation(
        self,
        is_stack: bool,
        dtypes: tuple[np.dtype[Any], ...],
        most: int,
        otherwise: Callable[..., NDArray[Any]],
        /,
    ) -> Callable[..., NDArray[Any]]:
        """Return an implementation of concatenation or stacking that handles small arrays in C."""
        ...

    def make_program(
        self,
        words: NDArray[np.int64],
        sizes: NDArray[np.int64],
        functions: tuple[Any, ...],
        constants: tuple[NDArray[Any], ...],
        ufunc_type: type,
        /,
    ) -> Callable[..., None]:
        """Return a function that runs a program table, as ``extension/program.h`` describes.

        Raises:
            ValueError: the table is wrong.
            AttributeError: there is no function of a name.
        """
        ...

    def run_calls_in_threads(
        self, ufunc_type: type, processors: int, calls: tuple[tuple[Any, ...], ...], threads: int, /
    ) -> bool:
        """Run calls in up to `threads` threads of C, if these know all functions called.

        Returns:
            Whether it did, or made none. Each call is a function and its arguments: a kernel, a program, or a ufunc
            with vectors, of which the last is the result.
        """
        ...

    def run_parts_in_threads(
        self,
        ufunc_type: type,
        processors: int,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        steps: tuple[int, ...],
        place: int,
        count: int,
        multiple: int,
        parts: int,
        threads: int,
        /,
    ) -> bool:
        """Divide one call among up to `threads` threads of C, if these know the function.

        Returns:
            Whether it did. See `ThreadPool.run_in_parts` of plugrad-cpu.

        Raises:
            ValueError: steps are not those of arrays.
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
    """Import an extension module."""
    return cast("Variant", import_module(f"plugrad_native.{name}"))
