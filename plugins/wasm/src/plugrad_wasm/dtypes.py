"""The dtypes that arrays in linear memory may have."""

from __future__ import annotations

from typing import Final

from plugrad.extend import (
    DType,
    UnsupportedDtype,
    as_dtype,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    known_bfloat16,
    uint8,
    uint16,
    uint32,
    uint64,
)

ARRAY_DTYPES: Final = frozenset(
    (
        *(bool_, complex64, complex128, float16, float32, float64),
        *(int8, int16, int32, int64, uint8, uint16, uint32, uint64),
    )
)
"""The dtypes that kernels compute. Arrays may also be bfloat16."""


def as_supported_dtype(spelling: object) -> DType:
    """Return the dtype for a spelling, a name or a dtype, if arrays can have it, or raise.

    Raises:
        UnsupportedDtype: they cannot.
    """
    dtype = as_dtype(spelling)
    if dtype not in ARRAY_DTYPES and dtype not in known_bfloat16():
        raise UnsupportedDtype(
            f"the wasm backend does not have {dtype}; it has {', '.join(sorted(map(str, ARRAY_DTYPES)))}. Ask for one "
            "of them, as in dtype='float32', or use the cpu backend"
        )
    return dtype
