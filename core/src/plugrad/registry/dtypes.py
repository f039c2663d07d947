"""Element types that plugins bring."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import numpy as np

from plugrad.errors import DTypeError, RegistrationError, short_repr
from plugrad.settings import journal
from plugrad.types.dtype import (
    BFLOAT16,
    DTYPES,
    DType,
    add_dtype,
    as_dtype,
    every_dtype,
    new_dtype,
    remove_dtype,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugrad.types.dtype import DTypeLike

REGISTRABLE_KINDS: Final = ("floating", "signed", "unsigned")
"""The kinds of dtypes that plugins may register."""


def register_dtype(
    name: str,
    numpy: Any,
    *,
    kind: Literal["floating", "signed", "unsigned"],
    promotion: Mapping[DTypeLike, DTypeLike] | None = None,
    info: Any = None,
) -> DType:
    """Return a new element type, which tensors may have on the backends that store it.

    Kernels whose contract takes all dtypes of the kind take it too. With another kind, and with a dtype of another
    size, it is promoted as plugrad's own dtypes are; `promotion` says what else it gives.

    Example:
        ::

            import ml_dtypes

            float8 = register_dtype(
                "float8_e5m2",
                ml_dtypes.float8_e5m2,
                kind="floating",
                promotion={"float16": "float16"},
                info=ml_dtypes.finfo("float8_e5m2"),
            )

    Args:
        name: by which it is found: ``plugrad.zeros(3, dtype="float8_e5m2")``.
        numpy: NumPy's dtype for it, or a type of scalars; arrays on the host have it.
        kind: what its elements are.
        promotion: to what it is promoted with other dtypes. It must name plugrad's own dtypes of its kind and size,
            and wins over the rules.
        info: its limits, with the attributes of `numpy.finfo` or `numpy.iinfo`, if these do not know it.

    Raises:
        RegistrationError: the name or NumPy's dtype is taken, or an argument is malformed.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9_]*", name):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise _registration_error(name, f"name={short_repr(name)} must match [a-z][a-z0-9_]*")
    if kind not in REGISTRABLE_KINDS:
        raise _registration_error(
            name, f"kind={short_repr(kind)} must be {', '.join(map(repr, REGISTRABLE_KINDS))}"
        )
    try:
        host: np.dtype[Any] = np.dtype(numpy)
    except TypeError as error:
        raise _registration_error(
            name, f"numpy={short_repr(numpy)} is no dtype of NumPy: {error}"
        ) from error
    if BFLOAT16 in (name, host.name):
        raise _registration_error(name, "bfloat16 is a dtype of plugrad; bring another")
    _check_is_new(name, host)
    dtype = new_dtype(name, kind, host, info)
    try:
        limits = dtype.info
        _ = (limits.eps if kind == "floating" else limits.min), limits.max
    except (ValueError, AttributeError) as error:
        raise _registration_error(
            name,
            f"info={short_repr(info)} must have the attributes of numpy.finfo or numpy.iinfo: {error}",
        ) from error
    rules = _check_promotion_rules(dtype, promotion or {})
    with journal.registration_lock:
        _check_is_new(name, host)
        journal.record_change(
            ("dtype", name), partial(remove_dtype, dtype), partial(add_dtype, dtype, rules)
        )
        add_dtype(dtype, rules)
    return dtype


def _check_is_new(dtype_name: str, numpy_dtype: np.dtype[Any]) -> None:
    """Raise if a name or NumPy's dtype has a dtype already.

    Raises:
        RegistrationError: the message names it.
    """
    for known in every_dtype():
        if known.name == dtype_name:
            raise _registration_error(
                dtype_name, f"there is a dtype of this name, for NumPy's {known.numpy}"
            )
        if known.numpy == numpy_dtype:
            raise _registration_error(
                dtype_name, f"numpy={short_repr(numpy_dtype)} is NumPy's dtype for {known}"
            )


def _check_promotion_rules(dtype: DType, promotion: object) -> dict[DType, DType]:
    """Return the promotion rules of a dtype; raise unless they are complete."""

    def find_dtype(spelling: object) -> DType:
        try:
            return dtype if spelling == dtype.name else as_dtype(spelling)
        except DTypeError as error:
            raise _registration_error(
                dtype.name, f"promotion={short_repr(promotion)}: {error}"
            ) from error

    try:
        given = dict(cast("Any", promotion))
    except (TypeError, ValueError):
        raise _registration_error(
            dtype.name, f"promotion={short_repr(promotion)} must be a dict from dtypes to dtypes"
        ) from None
    rules = {find_dtype(a): find_dtype(b) for a, b in given.items()}
    for other in DTYPES:
        same = other.kind == dtype.kind and other.itemsize == dtype.itemsize
        if same and other not in rules:
            raise _registration_error(
                dtype.name,
                f"promotion must say what it gives with {other}, which has its kind and size, as in "
                f"promotion={{{other.name!r}: 'float32'}}",
            )
    return rules


def _registration_error(dtype_name: object, problem: str) -> RegistrationError:
    """Return the error for a dtype that cannot be registered."""
    return RegistrationError(f"register_dtype({short_repr(dtype_name)}): {problem}")
