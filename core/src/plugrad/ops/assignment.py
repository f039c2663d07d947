"""Conversion of values to the dtype and the backend of the tensor that they are assigned to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from plugrad.engine.results import tensor_from_host
from plugrad.errors import ArgumentValueError, DTypeError
from plugrad.ops.arguments import WEAKLY_TYPED_SCALAR_TYPES, cached_constant, cast, host_array
from plugrad.tensor.tensor import Tensor, TensorLike
from plugrad.types.dtype import (
    DType,
    Scalar,
    as_dtype,
    promote,
    promote_scalar,
    scalar_dtype,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


def cast_for_assignment(x: TensorLike, target: Tensor, op: str, argument_name: str) -> Tensor:
    """Cast `x` to the dtype of the tensor that it is assigned to; host values go to that tensor's backend.

    Python numbers, also in lists, are weakly typed: they fit any dtype of their kind or of a higher kind.

    Raises:
        DTypeError: the dtype does not hold the values.
        ArgumentValueError: a number does not fit.
    """
    if type(x) is Tensor and x.array.dtype is target.array.dtype:  # as mostly
        return x
    dtype = target.dtype
    if isinstance(x, Tensor):
        _check_assignable(x.dtype, dtype, op, argument_name)
        return cast(x, dtype, op)
    if type(x) in WEAKLY_TYPED_SCALAR_TYPES:
        _check_assignable(scalar_dtype(x), dtype, op, argument_name, are_weakly_typed=True)  # type: ignore[arg-type]
        return cached_constant(x, dtype, target.backend, op)  # type: ignore[arg-type]
    are_weak = isinstance(x, list | tuple | range)
    try:
        values = host_array(x, op, argument_name)
    except ArgumentValueError:  # integers that do not fit int32
        if not are_weak:
            raise
        values = np.zeros(0, np.int32)
    _check_assignable(as_dtype(values.dtype), dtype, op, argument_name, are_weakly_typed=are_weak)
    return tensor_from_host(host_array(x, op, argument_name, dtype), target.backend)


def _check_assignable(
    source: DType, dtype: DType, op: str, argument_name: str, *, are_weakly_typed: bool = False
) -> None:
    """Raise unless values of the dtype `source` can be assigned to `dtype`; weakly typed ones need only fit in kind.

    Raises:
        DTypeError: it does not.
    """
    try:
        if are_weakly_typed and source is not string:
            met = promote_scalar(dtype, _SAMPLE_VALUE_OF_DTYPE_KIND[source.kind])
        else:
            met = promote(dtype, source)
    except DTypeError:
        met = None
    # Another precision is what an assignment in NumPy and PyTorch takes too: `empty` has the default one.
    if met is not dtype and not (source.kind == dtype.kind and dtype.is_inexact):
        raise DTypeError(
            f"{op}: {argument_name} are {source}, which {dtype} does not hold; cast one of them, as in "
            f"astype({str(dtype)!r})"
        )


_SAMPLE_VALUE_OF_DTYPE_KIND: Final[Mapping[str, Scalar]] = {
    "bool": True,
    "signed": 1,
    "unsigned": 1,
    "floating": 1.0,
    "complex": 1j,
}
"""A Python number of each kind of dtype, by which the promotion of weakly typed values is found."""
