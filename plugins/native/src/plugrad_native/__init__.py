"""A kernel pack for the backend ``"cpu"``: kernels in C, where they are faster than NumPy's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.extend import KernelTable

if TYPE_CHECKING:
    from collections.abc import Callable


def register() -> KernelTable:
    """Return the kernels; plugrad calls this after it has loaded the cpu backend."""
    from plugrad_native.variants import (
        has_any_variant,  # not at the top: listing plugins runs no code
    )

    if not has_any_variant():  # a wheel without compiled code, for other platforms
        return KernelTable("cpu")
    from plugrad_cpu.extend import multiply_matrices
    from plugrad_native.kernels.linalg import multiply
    from plugrad_native.sharing import use_compiled_threads
    from plugrad_native.small_results import table

    use_compiled_threads()
    multiply_matrices.compiled = multiply
    table.compile = compile_graph
    return table


def compile_graph(graph: Any) -> Callable[..., list[Any]] | None:
    """Return a function that runs a graph as programs in C, or None if C runs none of it."""
    from plugrad_native.programs.compile import compile_graph

    return compile_graph(graph)
