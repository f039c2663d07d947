"""The parts of the Python array API standard's namespace that do not compute with arrays.

These are its functions of dtypes, and the object that reports what is supported.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from plugrad.discovery.listing import backends
from plugrad.discovery.loading import probe
from plugrad.discovery.selection import resolve_backend, which
from plugrad.errors import (
    ArgumentValueError,
    BackendUnavailable,
    DTypeError,
    short_repr,
    suggest_similar_name,
)
from plugrad.types.dtype import (
    DTYPES,
    DType,
    DTypeLike,
    as_dtype,
    complex64,
    float16,
    float32,
    int32,
    promote,
    promote_scalar,
)

if TYPE_CHECKING:
    from types import ModuleType

    from plugrad.tensor.tensor import Tensor, TensorLike

__array_api_version__: Final = "2024.12"
SUPPORTED_VERSIONS: Final = ("2021.12", "2022.12", "2023.12", __array_api_version__)
"""The versions of the standard that are supported."""
MAX_AXES: Final = 32
"""The limit of cpu and wasm; webgpu takes fewer axes if a kernel cannot merge any two of them."""

_DTYPE_KINDS_BY_NAME: Final[dict[str, frozenset[str]]] = {
    "bool": frozenset({"bool"}),
    "signed integer": frozenset({"signed"}),
    "unsigned integer": frozenset({"unsigned"}),
    "integral": frozenset({"signed", "unsigned"}),
    "real floating": frozenset({"floating"}),
    "complex floating": frozenset({"complex"}),
    "numeric": frozenset({"signed", "unsigned", "floating", "complex"}),
}


class FloatInfo(NamedTuple):
    """The limits of a floating dtype; for a complex dtype, the limits of its real and imaginary parts."""

    bits: int
    eps: float
    """The distance from 1 to the next larger number."""
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IntegerInfo(NamedTuple):
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def _as_dtype(x: TensorLike | DTypeLike) -> DType:
    """Return the dtype of an array; a dtype is returned as a `DType`."""
    return as_dtype(x if isinstance(x, str | type) else getattr(x, "dtype", x))


def finfo(type: DTypeLike | Tensor) -> FloatInfo:
    """The limits of a floating or complex dtype, or of the dtype of a tensor.

    >>> plugrad.finfo("float32").eps, plugrad.finfo("float32").bits
    (1.1920928955078125e-07, 32)

    Raises:
        ArgumentValueError: the dtype is neither floating nor complex.
    """
    dtype = _as_dtype(type)
    if not dtype.is_inexact:
        raise ArgumentValueError(f"finfo: {dtype} is not floating; plugrad.iinfo is for integers")
    limits: Any = dtype.info
    return FloatInfo(
        limits.bits,
        float(limits.eps),
        float(limits.max),
        float(limits.min),
        float(limits.smallest_normal),
        as_dtype(limits.dtype),
    )


def iinfo(type: DTypeLike | Tensor) -> IntegerInfo:
    """The limits of an integer dtype, or of the dtype of a tensor.

    >>> plugrad.iinfo("int8").min, plugrad.iinfo("int8").max
    (-128, 127)

    Raises:
        ArgumentValueError: the dtype is not an integer dtype.
    """
    dtype = _as_dtype(type)
    if not dtype.is_integer:
        raise ArgumentValueError(f"iinfo: {dtype} is not an integer; plugrad.finfo is for floats")
    limits: Any = dtype.info
    return IntegerInfo(limits.bits, int(limits.max), int(limits.min), dtype)


def isdtype(dtype: DTypeLike, kind: DTypeLike | tuple[DTypeLike, ...]) -> bool:
    """Whether a dtype is `kind` or of that kind; for a tuple of kinds, whether it matches one of them.

    >>> plugrad.isdtype("float32", "real floating"), plugrad.isdtype("int8", ("bool", "int32"))
    (True, False)

    Args:
        dtype: a dtype.
        kind: a dtype; ``"bool"``, ``"signed integer"``, ``"unsigned integer"``, ``"integral"``,
            ``"real floating"``, ``"complex floating"`` or ``"numeric"``; or a tuple of them.

    Raises:
        ArgumentValueError: `kind` is unknown.
    """
    dtype = as_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(dtype, part) for part in kind)
    if isinstance(kind, str) and kind in _DTYPE_KINDS_BY_NAME:
        return dtype.kind in _DTYPE_KINDS_BY_NAME[kind]
    if isinstance(kind, str) and kind not in DTYPES:
        raise ArgumentValueError(
            f"isdtype: {short_repr(kind)} is not a kind"
            f"{suggest_similar_name(kind, _DTYPE_KINDS_BY_NAME)}; it is a dtype or "
            f"one of {', '.join(map(repr, _DTYPE_KINDS_BY_NAME))}"
        )
    return dtype is as_dtype(kind)


def can_cast(from_: DTypeLike | Tensor, to: DTypeLike) -> bool:
    """Whether the standard's promotion converts one dtype to the other, so that every value is kept.

    >>> plugrad.can_cast("int8", "int32"), plugrad.can_cast("int64", "float64")
    (True, False)

    plugrad promotes further than the standard, as from int64 to float32, which loses digits.
    """
    start, end = _as_dtype(from_), as_dtype(to)
    numbers = ("signed", "unsigned"), ("floating", "complex")
    if start is not end and not any({start.kind, end.kind} <= {*kinds} for kinds in numbers):
        return False
    try:
        return promote(start, end) is end
    except DTypeError:
        return False


def result_type(*arrays_and_dtypes: TensorLike | DTypeLike) -> DType:
    """The dtype that an op on tensors, dtypes and Python scalars computes in.

    >>> plugrad.result_type(plugrad.asarray([1]), "float64", 2.5)
    plugrad.float64
    >>> plugrad.result_type(plugrad.int8, 3)
    plugrad.int8

    A Python scalar does not widen a dtype of its kind.

    Raises:
        ArgumentValueError: there is neither a tensor nor a dtype.
        DTypeError: two of them have no common dtype, or one is not a dtype.
    """
    scalars = [x for x in arrays_and_dtypes if type(x) in (bool, int, float, complex)]
    dtypes = [_as_dtype(x) for x in arrays_and_dtypes if type(x) not in (bool, int, float, complex)]
    if not dtypes:
        raise ArgumentValueError(
            "result_type: give at least one tensor or dtype besides the scalars"
        )
    result = dtypes[0]
    for dtype in dtypes[1:]:
        result = promote(result, dtype)
    for scalar in scalars:
        result = promote_scalar(result, cast("complex", scalar))
    return result


class __array_namespace_info__:  # noqa: N801 - the standard's name
    """What plugrad supports, in the form that the array API standard specifies.

    >>> plugrad.__array_namespace_info__().default_dtypes()["real floating"]
    plugrad.float32
    """

    def capabilities(self) -> dict[str, Any]:
        """Return the optional features: boolean indexing, data-dependent shapes, and the maximum number of axes."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": MAX_AXES,
        }

    def default_device(self) -> str:
        """Return the active backend and its device."""
        return which().device

    def devices(self) -> list[str]:
        """Return the devices of the installed backends that can be used, which loads them."""
        found: list[str] = []
        for candidate in backends():
            if candidate.status not in ("available", "active"):
                continue
            try:
                devices = probe(candidate).devices
            except BackendUnavailable:
                continue
            found += [f"{candidate.name}:{device.name}" for device in devices]
        return found

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """Return the default dtypes; they are the same on every device."""
        if device is not None:
            resolve_backend(device)  # raises if there is none
        return {
            "real floating": float32,
            "complex floating": complex64,
            "integral": int32,
            "indexing": int32,
        }

    def dtypes(
        self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """Return the dtypes of a kind that a device has; see `isdtype` for the kinds. The standard has no float16."""
        has = resolve_backend(device).dtypes()
        kinds = tuple(_DTYPE_KINDS_BY_NAME) if kind is None else kind
        return {d.name: d for d in DTYPES if d in has and d is not float16 and isdtype(d, kinds)}


def __array_namespace__(  # noqa: N807 - a method of tensors
    x: Tensor, *, api_version: str | None = None
) -> ModuleType:
    """Return the module `plugrad`, whose functions take the tensor, if it follows a version of the standard.

    Raises:
        ArgumentValueError: it does not.
    """
    if api_version is not None and api_version not in SUPPORTED_VERSIONS:
        raise ArgumentValueError(
            f"__array_namespace__: api_version={short_repr(api_version)} is not one of {', '.join(SUPPORTED_VERSIONS)}"
        )
    return sys.modules["plugrad"]
