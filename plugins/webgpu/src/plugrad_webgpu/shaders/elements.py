"""The WGSL types in which dtypes are stored and computed."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from plugrad.extend import (
    BFLOAT16,
    DType,
    UnsupportedDtype,
    bool_,
    complex64,
    float16,
    float32,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

NUMBER_DTYPES: Final = (float32, int32, uint32)
"""The dtypes of one word that WGSL has as number types."""

WORD_DTYPES_BY_NARROW_DTYPE: Final[dict[DType, DType]] = {
    int8: int32,
    int16: int32,
    uint8: uint32,
    uint16: uint32,
}
"""The dtype of the words that hold the elements of a narrow dtype, and in which they are computed."""

COMPUTE_DTYPES_BY_DTYPE: Final = WORD_DTYPES_BY_NARROW_DTYPE | {bool_: uint32}
"""The dtype of the words in which elements smaller than a word are computed, by their dtype."""

_NARROWING_EXPRESSIONS: Final[dict[DType, str]] = {
    int8: "wrapped_i8({})",
    int16: "wrapped_i16({})",
    uint8: "(({}) & 0xffu)",
    uint16: "(({}) & 0xffffu)",
}
"""The WGSL templates that wrap an integer around to a narrow dtype."""

WGSL_STORAGE_TYPES: Final[dict[DType, str]] = {
    float32: "f32",
    int32: "i32",
    uint32: "u32",
    bool_: "u32",
    complex64: "vec2<f32>",
    int64: "vec2<u32>",
    int8: "i32",
    int16: "i32",
    uint8: "u32",
    uint16: "u32",
}
"""The WGSL type of an element in a buffer. WGSL does not allow bool there; the host packs and unpacks it."""

WGSL_VALUE_TYPES: Final[dict[DType, str]] = WGSL_STORAGE_TYPES | {bool_: "bool"}
"""The WGSL type of an element in an expression; the type's name also converts from the stored type."""

SHADER_DTYPES: Final = frozenset(WGSL_STORAGE_TYPES)
"""The dtypes of the operands of shaders."""
HALF_DTYPES: Final[frozenset[DType | str]] = frozenset({float16, BFLOAT16})
"""The dtypes of which two elements share a word. Elementwise kernels convert them; others do not see them."""
HALF_CONVERSION_FUNCTIONS: Final[dict[DType | str, tuple[str, str]]] = {
    float16: ("half_bits", "bits_of_half"),
    BFLOAT16: ("brain_bits", "bits_of_brain"),
}
"""The WGSL functions from the bits of a float32 to those of the nearest half, and back."""
_TWO_WORD_DTYPES: Final = frozenset({complex64, int64})
"""The dtypes whose elements take two words of 32 bits."""
STORED_DTYPES: Final[frozenset[DType | str]] = SHADER_DTYPES.union(HALF_DTYPES)
"""The dtypes of arrays on the device."""

LOWEST_VALUES_BY_DTYPE: Final[dict[DType, int | float]] = {
    float32: float("-inf"),
    int32: -(2**31),
    uint32: 0,
    bool_: 0,
    int64: -(2**63),
    int8: -(2**7),
    int16: -(2**15),
    uint8: 0,
    uint16: 0,
}
"""The lowest value of each dtype that has an order."""
HIGHEST_VALUES_BY_DTYPE: Final[dict[DType, int | float]] = {
    float32: float("inf"),
    int32: 2**31 - 1,
    uint32: 2**32 - 1,
    bool_: 1,
    int64: 2**63 - 1,
    int8: 2**7 - 1,
    int16: 2**15 - 1,
    uint8: 2**8 - 1,
    uint16: 2**16 - 1,
}
"""The highest value of each dtype that has an order."""


class TwoWordInteger(int):
    """A 64-bit integer as two words."""


def vector_type(stored_type: str, width: int) -> str:
    """Return the WGSL type of `width` adjacent stored elements."""
    if width == 1:
        return stored_type
    # There are no vectors of vectors; a matrix, which is of floats, has its columns side by side.
    pairs = {"vec2<f32>": f"mat{width}x2<f32>", "vec2<u32>": f"array<vec2<u32>, {width}>"}
    return pairs.get(stored_type, f"vec{width}<{stored_type}>")


def words_per_element(dtype: DType) -> int:
    """Return the number of 32-bit words of an element."""
    return 2 if dtype in _TWO_WORD_DTYPES else 1


def stored_nbytes(shape: Sequence[int], dtype: DType) -> int:
    """Return the size of an array in bytes of whole words; two halves share a word.

    >>> stored_nbytes((2, 3), float32), stored_nbytes((2, 3), complex64)
    (24, 48)
    """
    count = prod(shape)
    return 4 * (-(-count // 2) if dtype in HALF_DTYPES else count * words_per_element(dtype))


def stored_type(dtype: DType) -> str:
    """Return the WGSL type of one stored element in a register; for halves a word with its 16 bits."""
    return "u32" if dtype in HALF_DTYPES else WGSL_STORAGE_TYPES[dtype]


def value_type(dtype: DType) -> str:
    """Return the WGSL type in which an expression computes."""
    return "f32" if dtype in HALF_DTYPES else WGSL_VALUE_TYPES[dtype]


def as_stored(dtype: DType, value: str) -> str:
    """Return the WGSL that converts the value of an expression to a stored element."""
    if dtype not in HALF_DTYPES:
        return f"{WGSL_STORAGE_TYPES[dtype]}({value})"
    return f"{HALF_CONVERSION_FUNCTIONS[dtype][0]}(bitcast<u32>({value}))"


def as_value(dtype: DType, stored: str) -> str:
    """Return the WGSL that converts a stored element to the type in which expressions compute."""
    if dtype not in HALF_DTYPES:
        return f"{WGSL_VALUE_TYPES[dtype]}({stored})"
    return f"bitcast<f32>({HALF_CONVERSION_FUNCTIONS[dtype][1]}({stored}))"


def narrow_expression(dtype: DType, expression: str) -> str:
    """Return an expression cast to a narrow dtype; integers wrap around."""
    return (
        _NARROWING_EXPRESSIONS[dtype].format(expression)
        if dtype in WORD_DTYPES_BY_NARROW_DTYPE
        else expression
    )


def with_narrow_dtypes(
    expressions: Mapping[DType, str], result_dtype: DType | None
) -> dict[DType | str, str]:
    """Return a table of expressions extended to narrow dtypes and halves, which compute in wide ones."""
    table: dict[DType | str, str] = dict(expressions)
    if float32 in expressions:
        table = dict.fromkeys(HALF_DTYPES, expressions[float32]) | table
    for dtype, wide in WORD_DTYPES_BY_NARROW_DTYPE.items():
        if wide in expressions and dtype not in expressions:
            table[dtype] = (
                expressions[wide] if result_dtype else narrow_expression(dtype, expressions[wide])
            )
    return table


def as_parameter(value: complex, dtype: DType) -> int | float | complex:
    """Return a host number as a shader parameter of a dtype.

    As in a cast, imaginary parts are dropped where there is no room for them, integers saturate at
    the limits of their dtype, and NaN becomes 0.
    """
    if dtype == complex64:
        return complex(value)
    value = value.real
    if dtype == float32 or dtype in HALF_DTYPES:
        return float(value)
    if dtype == bool_:
        return int(bool(value))
    if value != value:  # NaN
        return as_parameter(0, dtype)
    number = int(min(max(value, LOWEST_VALUES_BY_DTYPE[dtype]), HIGHEST_VALUES_BY_DTYPE[dtype]))
    return TwoWordInteger(number) if dtype == int64 else number


def require_dtype(
    dtype: DType, supported_dtypes: Collection[DType | str], subject: str = "backend 'webgpu'"
) -> None:
    """Raise unless a dtype is supported; the error says that `subject` lacks it.

    Raises:
        UnsupportedDtype: the dtype is not one of `supported_dtypes`.
    """
    if dtype not in supported_dtypes:
        raise UnsupportedDtype(
            f"{subject} does not support dtype {dtype}, only {', '.join(sorted(map(str, supported_dtypes)))}; choose "
            'one of these, as in dtype="float32", or compute on the cpu backend'
        )
