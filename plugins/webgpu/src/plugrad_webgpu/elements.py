"""How dtypes are stored and named in WGSL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plugrad.extend import DType, UnsupportedDtype, bool_, complex64, float32, int32, uint32

if TYPE_CHECKING:
    from collections.abc import Iterable

DTYPES: Final = frozenset({float32, int32, uint32, bool_, complex64})
NUMBERS: Final = (float32, int32, uint32)

STORED: Final[dict[DType, str]] = {
    float32: "f32",
    int32: "i32",
    uint32: "u32",
    bool_: "u32",
    complex64: "vec2<f32>",
}
"""The type in a buffer. WGSL does not allow bool there; the host packs and unpacks it."""

VALUE: Final[dict[DType, str]] = STORED | {bool_: "bool"}
"""The type in an expression; its name also converts from the stored type."""

LOWEST: Final[dict[DType, int | float]] = {
    float32: float("-inf"),
    int32: -(2**31),
    uint32: 0,
    bool_: 0,
}
HIGHEST: Final[dict[DType, int | float]] = {
    float32: float("inf"),
    int32: 2**31 - 1,
    uint32: 2**32 - 1,
    bool_: 1,
}


def vector(stored: str, width: int) -> str:
    """Return the WGSL type of `width` stored elements side by side."""
    if width == 1:
        return stored
    # There are no vectors of vectors; a matrix has its columns side by side.
    return f"mat{width}x2<f32>" if stored == "vec2<f32>" else f"vec{width}<{stored}>"


def words_in(dtype: DType) -> int:
    """Return the number of 32-bit words that an element takes."""
    return 2 if dtype == complex64 else 1


def typed(value: complex, dtype: DType) -> int | float | complex:
    """Return a host number as a shader parameter of a dtype.

    As in a cast, imaginary parts are dropped where there is no room for them, integers saturate at
    the limits of their dtype, and NaN becomes 0.
    """
    if dtype == complex64:
        return complex(value)
    value = value.real
    if dtype == float32:
        return float(value)
    if dtype == bool_:
        return int(bool(value))
    if value != value:  # NaN
        return 0
    return int(min(max(value, LOWEST[dtype]), HIGHEST[dtype]))


def require(dtype: DType, supported: Iterable[DType], what: str = "backend 'webgpu'") -> None:
    """Raise unless `what` supports a dtype.

    Raises:
        UnsupportedDtype: the dtype is not one of `supported`.
    """
    names = sorted(supported)
    if dtype not in names:
        raise UnsupportedDtype(
            f"{what} does not support dtype {dtype}, only {', '.join(names)}; choose one of these, as in "
            'dtype="float32", or compute on the cpu backend'
        )
