"""Running sums and products along an axis; those of floats are computed in double precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad.extend import size_of
from plugrad.kernels import scan
from plugrad_native.declare import FLOATS, LIMIT, dense, exports, in_numpy, table

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.extend import Kernel
    from plugrad_native.declare import Array

NUMBERS = (*FLOATS, "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def scanned(kernel: Kernel[..., Any], name: str) -> Callable[..., Array]:
    """Return an implementation that accumulates with functions of C."""
    functions, numpy_function = exports(name, *NUMBERS), in_numpy(kernel)

    def implementation(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
        run = functions.get(x.dtype)
        if run is None or not 0 < x.size < LIMIT:
            return numpy_function(x, axis=axis, exclusive=exclusive, reverse=reverse)
        out = np.empty(x.shape, x.dtype)
        outer, inner = size_of(x.shape[:axis]), size_of(x.shape[axis + 1 :])
        run(dense(x), out, outer, x.shape[axis], inner, exclusive, reverse)
        return out

    return implementation


table.update(
    {scan.cumsum: scanned(scan.cumsum, "cumsum"), scan.cumprod: scanned(scan.cumprod, "cumprod")}
)
