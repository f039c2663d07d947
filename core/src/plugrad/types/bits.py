"""Comparison of two results of one computation: bit for bit, or within the rounding errors of sums in another order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.types.dtype import numpy_kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

RELATIVE_TOLERANCE_OF_DTYPE: Final = {
    "float16": 4e-3,
    "float32": 1e-5,
    "float64": 1e-12,
    "complex64": 1e-5,
    "complex128": 1e-12,
}
"""The largest relative error that kernels may have, by dtype; results of other dtypes are exact."""


def comparable_bits(array: NDArray[Any]) -> object:
    """Return an integer array that is equal for two arrays if and only if their bits are equal, all NaNs being one.

    NaN equals NaN: its sign and its payload carry no meaning (IEEE 754-2019, 6.2.3 and 6.3). Of two NaNs, processors
    pass on that of the first operand, and compilers exchange the operands of sums and products. 0 and -0 differ.
    Complex numbers are compared as pairs. Strings lie elsewhere than in the array, so they are compared as a list.
    """
    kind = numpy_kind(array.dtype)
    if kind not in "biufc":
        return array.tolist()
    if kind == "c":
        array = np.ascontiguousarray(array)
        array = array.reshape(-1).view(np.dtype(f"f{array.dtype.itemsize // 2}"))
    if kind in "fc":
        is_nan = np.isnan(array)
        if is_nan.any():
            array = np.where(is_nan, array.dtype.type("nan"), array)
    return array.tobytes()
