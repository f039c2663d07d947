"""The element types of tensors, and the type to which two of them are promoted.

Names are those of the Python array API standard, and `string`. NumPy does not know the name `string`; code
that may encounter that dtype uses ``dtype.numpy``.
"""

from __future__ import annotations

from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias, final

import numpy as np

from plugrad.errors import DTypeError, short_repr, suggest_similar_name
from plugrad.importing import import_lazily

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Set

DTypeKind: TypeAlias = Literal["bool", "signed", "unsigned", "floating", "complex", "string"]
"""The kinds of dtypes."""
Scalar: TypeAlias = bool | int | float | complex
"""A Python number or bool."""

_KIND_OF_DTYPE_NAME: Final[dict[str, DTypeKind]] = {
    "bool": "bool",
    **dict.fromkeys(("int8", "int16", "int32", "int64"), "signed"),
    **dict.fromkeys(("uint8", "uint16", "uint32", "uint64"), "unsigned"),
    **dict.fromkeys(("float16", "float32", "float64"), "floating"),
    **dict.fromkeys(("complex64", "complex128"), "complex"),
    "string": "string",
}
"""The kind of each of plugrad's own dtypes, by the dtype's name."""

BFLOAT16: Final = "bfloat16"
"""The name of the dtype bfloat16, which exists from its first use on, because its values need a package."""
HALVES: Final = frozenset(("float16", BFLOAT16))
"""The names of the half-precision dtypes, which have 16 bits; kernels compute them in float32 and round."""


@final
class DType:
    """An element type, which knows its name, its size and its kind.

    There is one object for each dtype, and it does not change, so ``x.dtype is plugrad.float32`` is a test. A dtype
    also equals its name, NumPy's dtype with its code, such as ``"f4"``, and NumPy's class of elements. It is not a
    string: `str` and `name` give that.

    >>> float32.name, float32.itemsize, float32.kind
    ('float32', 4, 'floating')
    >>> DType("float32") is float32, float32 == "float32", "float32" in {float32, int32}
    (True, True, True)
    >>> float32 == np.float32, float32 == np.dtype("f4"), float32 == "f4", bool_ == bool
    (True, True, True, True)

    Of Python's types, a dtype equals `bool` only: whether `float` is float32 or float64 depends on whom you ask.

    NumPy takes it where it takes a dtype of its own.

    >>> np.zeros(2, float32).dtype
    dtype('float32')
    """

    # In place of a method, a slot with that of the name, which is equal: no look-up calls Python.
    __slots__ = ("__hash__", "_info", "itemsize", "kind", "name", "numpy")

    name: str
    """The name in the array API standard."""
    itemsize: int
    """The bytes of one element."""
    kind: DTypeKind
    """The kind, such as "signed" or "floating"."""
    numpy: np.dtype[Any]
    """NumPy's dtype."""

    def __new__(cls, name: str) -> DType:
        """Return the dtype called `name`.

        Raises:
            DTypeError: there is none.
        """
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
            raise DTypeError(f"DType: name={short_repr(name)} must be a string")
        if name in _DTYPE_BY_NAME:
            return _DTYPE_BY_NAME[name]
        if name == BFLOAT16:
            return _import_bfloat16()
        if name not in _KIND_OF_DTYPE_NAME:
            raise _unknown_dtype_error(name)
        numpy = np.dtypes.StringDType() if name == "string" else np.dtype(name)
        self = _DTYPE_BY_NAME[name] = new_dtype(name, _KIND_OF_DTYPE_NAME[name], numpy)
        return self

    @property
    def info(self) -> Any:
        """The limits, as `numpy.finfo` or `numpy.iinfo` give them."""
        if self._info is not None:
            return self._info
        return np.iinfo(self.numpy) if self.is_integer else np.finfo(self.numpy)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype; NumPy looks for this attribute when it converts dtypes."""
        return self.numpy

    @property
    def char(self) -> str:
        """NumPy's one-letter code of the dtype, which SciPy's sparse matrices read."""
        return self.numpy.char

    @property
    def type(self) -> type[np.generic]:
        """NumPy's scalar class of the dtype, which Dask reads."""
        return self.numpy.type

    @property
    def byteorder(self) -> str:
        """NumPy's byte-order character, ``=`` for native order or ``|`` for single bytes."""
        return self.numpy.byteorder

    @property
    def is_integer(self) -> bool:
        """Whether the type holds integers; bool does not count as one."""
        return self.kind in ("signed", "unsigned")

    @property
    def is_inexact(self) -> bool:
        """Whether the type is floating or complex, and therefore differentiable."""
        return self.kind in ("floating", "complex")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return self.name == other or _DTYPE_BY_EQUIVALENT.get(other) is self
        if other is bool or (isinstance(other, type) and issubclass(other, np.generic)):
            return _DTYPE_BY_EQUIVALENT.get(other) is self
        return NotImplemented

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{self!r} does not change, so its {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{self!r} does not change, so its {name} cannot be deleted")

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"plugrad.{self}"

    def __reduce__(self) -> tuple[Any, ...]:
        return DType, (self.name,)


def new_dtype(name: str, kind: DTypeKind, numpy: np.dtype[Any], info: Any = None) -> DType:
    """Return a new dtype that is not yet known by name; plugins call `plugrad.extend.register_dtype`."""
    self = object.__new__(DType)
    for attribute, value in (
        *(("name", name), ("kind", kind), ("numpy", numpy), ("_info", info)),
        *(("itemsize", numpy.itemsize), ("__hash__", name.__hash__)),
    ):
        object.__setattr__(self, attribute, value)
    return self


def _unknown_dtype_error(spelling: object) -> DTypeError:
    """Return the DTypeError for a value that is not a dtype."""
    return DTypeError(
        f"{short_repr(spelling)} is not a dtype{suggest_similar_name(spelling, _DTYPE_BY_NAME)}; "
        f"choose one of {', '.join(_DTYPE_BY_NAME)}"
    )


_DTYPE_BY_NAME: Final[dict[str, DType]] = {}

bool_: Final = DType("bool")
int8: Final = DType("int8")
int16: Final = DType("int16")
int32: Final = DType("int32")
int64: Final = DType("int64")
uint8: Final = DType("uint8")
uint16: Final = DType("uint16")
uint32: Final = DType("uint32")
uint64: Final = DType("uint64")
float16: Final = DType("float16")
float32: Final = DType("float32")
float64: Final = DType("float64")
complex64: Final = DType("complex64")
complex128: Final = DType("complex128")
string: Final = DType("string")
"""Unicode text of any length, on the host. Its item size is what NumPy stores in the array itself."""

DTYPES: Final = (
    *(bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64),
    *(float16, float32, float64, complex64, complex128, string),
)
"""plugrad's own dtypes, without bfloat16 and those of plugins."""
BOOL: Final = frozenset({bool_})
"""The set of the dtype bool."""
INTEGER: Final = frozenset(d for d in DTYPES if d.is_integer)
"""The signed and unsigned integer dtypes."""
FLOATING: Final = frozenset(d for d in DTYPES if d.kind == "floating")
"""The floating dtypes."""
COMPLEX: Final = frozenset(d for d in DTYPES if d.kind == "complex")
"""The complex dtypes."""
INEXACT: Final = FLOATING | COMPLEX
"""The floating and complex dtypes, which are differentiable."""
REAL: Final = INTEGER | FLOATING
"""The integer and floating dtypes."""
NUMERIC: Final = REAL | COMPLEX
"""The integer, floating and complex dtypes."""
STRING: Final = frozenset({string})
"""The set of the dtype string."""
ANY: Final = frozenset(DTYPES)
"""All dtypes, which kernels accept that only move or compare elements."""


def _numpy_codes(numpy: np.dtype[Any]) -> tuple[str, str, str]:
    """Return NumPy's codes for a dtype, such as ``"<f4"``, ``"f4"`` and ``"f"``."""
    return numpy.str, numpy.str[1:], numpy.char


# A backend array may carry NumPy's dtype object or ours; both spell the same type.
_DTYPE_BY_EQUIVALENT: Final[dict[object, DType]] = {
    **{spelling: d for d in DTYPES for spelling in (d.name, d.numpy, d.numpy.type)},
    **{code: d for d in DTYPES if d is not string for code in _numpy_codes(d.numpy)},
    np.str_: string,
    bool: bool_,
    int: int32,
    float: float32,
    complex: complex64,
}
"""The dtypes by all that means one of them: names, codes, NumPy's dtypes and scalar classes, and Python's types."""

DTypeLike: TypeAlias = DType | str | np.dtype[Any] | type


def as_dtype(spelling: object) -> DType:
    """Convert a name, a NumPy dtype, its code or a Python type to a `DType`.

    >>> (
    ...     as_dtype("float32") is as_dtype("f4") is float32,
    ...     as_dtype(np.int64) is int64,
    ...     as_dtype(float) is float32,
    ... )
    (True, True, True)
    >>> as_dtype(str) is as_dtype(np.dtype("<U5")) is string
    True

    Raises:
        DTypeError: `spelling` does not stand for a dtype.
    """
    if type(spelling) is DType:
        return spelling
    try:
        return _DTYPE_BY_EQUIVALENT[spelling]
    except (KeyError, TypeError):
        if isinstance(spelling, np.dtype) and spelling.kind == "U":  # of any length
            return string
    if _names_bfloat16(spelling):
        return _import_bfloat16()
    raise _unknown_dtype_error(spelling)


def _names_bfloat16(spelling: object) -> bool:
    """Return whether a name, a NumPy dtype or a scalar type means bfloat16."""
    match spelling:
        case str():
            return spelling == BFLOAT16
        case np.dtype():
            return spelling.name == BFLOAT16
        case type():
            return spelling.__name__ == BFLOAT16
        case _:
            return False


def _import_bfloat16() -> DType:
    """Return the dtype bfloat16, which is created at the first call.

    Raises:
        DTypeError: the package that NumPy needs for its values is not installed.
    """
    return import_lazily("plugrad.types.bfloat16").bfloat16


def known_bfloat16() -> frozenset[DType]:
    """Return a set with bfloat16 if the program has named it, else an empty set."""
    found = _DTYPE_BY_NAME.get(BFLOAT16)
    return _EMPTY_DTYPE_SET if found is None else _single_dtype_set(found)


_EMPTY_DTYPE_SET: Final[frozenset[DType]] = frozenset()


@lru_cache(maxsize=1)
def _single_dtype_set(dtype: DType) -> frozenset[DType]:
    """Return a set of one dtype, the same object each time: it remembers its hash."""
    return frozenset((dtype,))


def equivalents(dtypes: frozenset[DType]) -> Set[object]:
    """Return the dtypes together with the NumPy dtypes that are equivalent to them.

    Where all of plugrad's own dtypes of a kind belong, those of plugins belong too; the set follows when one is added.
    """
    found = _EQUIVALENTS_CACHE.get(dtypes)
    if found is None:
        found = _EQUIVALENTS_CACHE[dtypes] = {spelling for d in dtypes for spelling in (d, d.numpy)}
        for dtype in _PROMOTION_OF_ADDED_DTYPE:
            _add_plugin_dtype_equivalents(dtype, dtypes, found)
    return found


_EQUIVALENTS_CACHE: Final[dict[frozenset[DType], set[object]]] = {}


def _add_plugin_dtype_equivalents(
    dtype: DType, dtypes: frozenset[DType], spellings: set[object]
) -> None:
    """Add a plugin's dtype to spellings if all other dtypes of its kind are among them."""
    if all(d in dtypes for d in DTYPES if d.kind == dtype.kind):
        spellings |= {dtype, dtype.numpy}


# --- dtypes of plugins ---------------------------------------------------------------------------

_PROMOTION_OF_ADDED_DTYPE: Final[dict[DType, Mapping[DType, DType]]] = {}
"""For each dtype of a plugin, and for bfloat16: the dtype of its combination with each other dtype."""

dtype_addition_listeners: Final[list[Callable[[], None]]] = []
"""Functions that are called after a dtype has been added."""


def every_dtype() -> tuple[DType, ...]:
    """Return plugrad's own dtypes and those of plugins, including bfloat16 if the program has named it."""
    return (*DTYPES, *_PROMOTION_OF_ADDED_DTYPE)


def add_dtype(dtype: DType, promotion: Mapping[DType, DType]) -> None:
    """Add a dtype, given its promotion with each other dtype; `plugrad.registry.dtypes` checks both first."""
    _PROMOTION_OF_ADDED_DTYPE[dtype] = promotion
    _DTYPE_BY_NAME[dtype.name] = dtype
    _DTYPE_BY_EQUIVALENT.update(dict.fromkeys((dtype.name, dtype.numpy, dtype.numpy.type), dtype))
    for dtypes, spelled in _EQUIVALENTS_CACHE.items():
        _add_plugin_dtype_equivalents(dtype, dtypes, spelled)
    for listener in dtype_addition_listeners:
        listener()


def remove_dtype(dtype: DType) -> None:
    """Forget a plugin's dtype; to forget it twice is harmless."""
    if _PROMOTION_OF_ADDED_DTYPE.pop(dtype, None) is not None:
        del _DTYPE_BY_NAME[dtype.name]
        for spelling in (dtype.name, dtype.numpy, dtype.numpy.type):
            del _DTYPE_BY_EQUIVALENT[spelling]
        for spelled in _EQUIVALENTS_CACHE.values():
            spelled -= {dtype, dtype.numpy}


def numpy_kind(dtype: np.dtype[Any]) -> str:
    """Return NumPy's letter for the kind of a dtype, also for a plugin's dtype, which NumPy itself calls void."""
    if dtype.kind != "V":
        return dtype.kind
    added = _import_bfloat16() if dtype.name == BFLOAT16 else _DTYPE_BY_EQUIVALENT.get(dtype)
    return dtype.kind if added is None else _NUMPY_LETTER_OF_KIND[added.kind]


_NUMPY_LETTER_OF_KIND: Final[dict[DTypeKind, str]] = {
    "floating": "f",
    "signed": "i",
    "unsigned": "u",
}


def scalar_dtype(value: Scalar | str) -> DType:
    """Return the default dtype of a Python scalar: bool, int32, float32, complex64 or string."""
    if isinstance(value, bool):
        return bool_
    if isinstance(value, int):
        return int32
    if isinstance(value, float):
        return float32
    return string if isinstance(value, str) else complex64


def can_hold(dtype: DType, value: Scalar | str) -> bool:
    """Return whether a Python scalar fits a dtype; integer dtypes hold fractions too, and truncate them.

    >>> can_hold(int8, 300), can_hold(float32, 300), can_hold(float32, 1j)
    (False, True, False)
    """
    if isinstance(value, str) or dtype is string:
        return isinstance(value, str) and dtype is string
    if isinstance(value, complex):
        return dtype.kind in ("complex", "bool")
    if not dtype.is_integer:  # NumPy cannot convert larger integers to bool
        return dtype.kind != "bool" or isinstance(value, float) or -(2**63) <= value < 2**63
    limits = dtype.info
    return isfinite(value) and bool(limits.min <= int(value) <= limits.max)


def promote(a: DType, b: DType) -> DType:
    """Return the dtype that holds values of both `a` and `b`.

    Within a kind this is the type promotion table of the array API standard. Where the standard
    leaves the result open, the *kind* decides and not the width: bool is promoted to numbers,
    integers to floating types, and floating types to complex ones.

    >>> promote(int8, uint8), promote(int64, float32), promote(float64, complex64)
    (plugrad.int16, plugrad.float32, plugrad.complex128)

    Raises:
        DTypeError: no dtype holds both: one is uint64 and the other a signed integer, or exactly one
            is a string.
    """
    if a is b:
        return a
    if string in (a, b):
        raise DTypeError(f"{a} and {b} have no common dtype; strings do not combine with numbers")
    for added, other in ((a, b), (b, a)) if _PROMOTION_OF_ADDED_DTYPE else ():
        if other in (promotion := _PROMOTION_OF_ADDED_DTYPE.get(added, {})):
            return promotion[other]
    low, high = sorted((a, b), key=lambda d: _KIND_ORDER[d.kind])
    if low.kind == high.kind:
        if low.itemsize == high.itemsize:  # one is a plugin's, which did not know the other
            raise DTypeError(
                f"{a} and {b} have no common dtype; cast one of them first, as in x.astype({str(a)!r})"
            )
        return max(low, high, key=lambda d: d.itemsize)
    if low.kind == "signed" and high.kind == "unsigned":
        if low.itemsize > high.itemsize:
            return low
        for wider in (int16, int32, int64):
            if wider.itemsize > high.itemsize:
                return wider
        raise DTypeError(
            f"{a} and {b} have no common integer dtype; cast one of them first, as in x.astype('int64')"
        )
    if low.kind == "floating" and high.kind == "complex":
        return complex128 if low is float64 else high
    return high


_KIND_ORDER: Final[dict[DTypeKind, int]] = {
    "bool": 0,
    "signed": 1,
    "unsigned": 2,
    "floating": 3,
    "complex": 4,
}


def nearest_dtype(dtype: DType, available: Collection[DType]) -> DType | None:
    """Return the dtype among `available` for values of `dtype`, or None if there is none of its kind.

    It is the smallest that holds all values of `dtype`, or if none does, the widest. Signed and unsigned
    integers count as one kind here; between two of one size, that of the same kind is taken.

    >>> (
    ...     nearest_dtype(float64, {float16, float32, int32}),
    ...     nearest_dtype(uint16, {int16, int32, int64}),
    ... )
    (plugrad.float32, plugrad.int32)
    """
    candidates = [
        d
        for d in every_dtype()
        if d in available and (d.is_integer if dtype.is_integer else d.kind == dtype.kind)
    ]
    enough = [d for d in candidates if _holds_all_values(d, dtype)]
    if enough:
        return min(enough, key=lambda d: (d.itemsize, d.kind != dtype.kind))
    return max(candidates, key=lambda d: (d.itemsize, d.kind == dtype.kind), default=None)


def _holds_all_values(dtype: DType, other_dtype: DType) -> bool:
    """Return whether a dtype represents every value of another dtype of its kind."""
    if (
        dtype in _PROMOTION_OF_ADDED_DTYPE
        or other_dtype in _PROMOTION_OF_ADDED_DTYPE
        or other_dtype.is_integer
    ):
        limits, needed = dtype.info, other_dtype.info
    else:
        return dtype.itemsize >= other_dtype.itemsize
    if not other_dtype.is_integer:
        return bool(limits.eps <= needed.eps and limits.max >= needed.max)
    return bool(limits.min <= needed.min and needed.max <= limits.max)


INT32_MAX_ELEMENTS: Final = 2**31
"""The most elements whose positions, counted from 0, fit int32."""


def position_dtype(count: int) -> DType:
    """Return the dtype for indices of `count` elements: int32, or int64 if they do not fit.

    Numbers from 0 to `count`, such as counts, are positions among ``count + 1`` elements.

    >>> position_dtype(1000), position_dtype(2**31 + 1)
    (plugrad.int32, plugrad.int64)
    """
    return int32 if count <= INT32_MAX_ELEMENTS else int64


def promote_scalar(d: DType, value: Scalar) -> DType:
    """Return the dtype of a tensor of dtype `d` combined with a Python scalar, which never widens `d` within a kind.

    A scalar of a higher kind gives the default dtype of its kind; float64 and a complex number give
    complex128.

    >>> promote_scalar(int8, 2), promote_scalar(int8, 2.0), promote_scalar(float64, 1j)
    (plugrad.int8, plugrad.float32, plugrad.complex128)
    """
    needed = scalar_dtype(value)
    if d is string:
        raise DTypeError(
            f"{short_repr(value)} and a string tensor have no common dtype; strings do not combine with numbers"
        )
    if _KIND_ORDER[needed.kind] <= _KIND_ORDER[d.kind] or (needed.is_integer and d.is_integer):
        return d
    return complex128 if d is float64 else needed
