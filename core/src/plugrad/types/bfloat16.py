"""bfloat16, whose values NumPy has from the package `ml_dtypes`; the module is imported when the dtype is first named.

Raises:
    DTypeError: the package is not installed.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from plugrad.errors import DTypeError
from plugrad.types.dtype import DType, add_dtype, float16, float32, new_dtype

try:
    import ml_dtypes
except ImportError as error:
    raise DTypeError(
        f"bfloat16 needs the package ml-dtypes, which cannot be imported ({error}); install it, as in "
        'pip install "plugrad[bfloat16]"'
    ) from None

bfloat16: Final[DType] = new_dtype(
    "bfloat16", "floating", np.dtype(ml_dtypes.bfloat16), ml_dtypes.finfo("bfloat16")
)
"""The first 16 bits of float32: its range, with 8 binary digits."""
add_dtype(bfloat16, {float16: float32})
