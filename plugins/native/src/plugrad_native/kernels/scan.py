"""Running sums and products along an axis; those of floats are computed in double precision."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from plugrad.extend import size_of
from plugrad.kernels import scan
from plugrad_cpu.extend import empty, numpy_implementation
from plugrad_native.declare import (
    FEW,
    FLOATS,
    INTEGERS,
    LIMIT,
    dense,
    exports,
    in_parts,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.extend import Kernel, Shape
    from plugrad_native.declare import Array

CHAINS = 8  # rows that are scanned at a time, as in csrc/scan.c
NUMBERS = (*FLOATS, *INTEGERS)


@lru_cache(maxsize=1024)
def around(shape: Shape, axis: int) -> tuple[int, int, int]:
    """Return the sizes before, of and behind an axis."""
    return size_of(shape[:axis]), shape[axis], size_of(shape[axis + 1 :])


def scanned(kernel: Kernel[..., Any], name: str) -> Callable[..., Array]:
    """Return an implementation that accumulates with functions of C."""
    functions, numpy_function = exports(name, *NUMBERS), numpy_implementation(kernel)

    def implementation(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
        run = functions.get(x.dtype)
        if run is None or not 0 < x.size < LIMIT:
            return numpy_function(x, axis=axis, exclusive=exclusive, reverse=reverse)
        out = empty(x.shape, x.dtype)
        outer, length, inner = around(x.shape, axis)
        if x.size < FEW:
            run(dense(x), out, outer, length, inner, exclusive, reverse)
            return out
        places = (dense(x), length * inner), (out, length * inner)
        attributes = length, inner, exclusive, reverse
        in_parts(run, places, outer, *attributes, work=x.size, multiple=CHAINS)
        return out

    return implementation


table.update(
    {scan.cumsum: scanned(scan.cumsum, "cumsum"), scan.cumprod: scanned(scan.cumprod, "cumprod")}
)
