"""Conversions between ONNX's element types, NumPy's dtypes, and the dtypes that a backend computes with.

Values of bfloat16, float8, float4, int4 and int2 are NumPy arrays with dtypes of ml_dtypes while
they are stored, and float32, int8 or uint8 while they are computed with.
Where a backend lacks a dtype of plugrad, such as webgpu float64, the cpu computes.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import numpy as np
import onnx

import plugrad
from plugrad_onnx.errors import InvalidModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from plugrad import Tensor

PLUGRAD_DTYPE_NAMES: Final = frozenset(
    [
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
    ]
)
"""The names of plugrad's number dtypes."""
NUMPY_STRING_DTYPE: Final = np.dtypes.StringDType()
"""NumPy's dtype of strings of any length."""


def numpy_dtype(onnx_type: int) -> np.dtype[Any]:
    """Return NumPy's dtype for the number of an ONNX element type, one of ml_dtypes where NumPy has none.

    Raises:
        InvalidModel: no element type has this number.
    """
    if onnx_type == onnx.TensorProto.STRING:
        return NUMPY_STRING_DTYPE
    try:
        return onnx.helper.tensor_dtype_to_np_dtype(onnx_type)
    except KeyError:
        raise InvalidModel(f"{onnx_type} is no element type of ONNX: expected 1 to 26.") from None


def is_array(value: Any) -> TypeGuard[NDArray[Any]]:
    """Whether a value is an array of NumPy."""
    return isinstance(value, np.ndarray)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Whether a value is a sequence of ONNX."""
    return isinstance(value, list)


def element_type(dtype: Any) -> int:
    """Return the number of the ONNX element type for a dtype of plugrad or NumPy."""
    if str(dtype) == "string" or np.dtype(dtype).kind in "TOU":
        return onnx.TensorProto.STRING
    return onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def is_stored_only(dtype: np.dtype[Any]) -> bool:
    """Whether plugrad computes with the values of a dtype in another dtype."""
    return dtype.kind not in "OTUS" and dtype.name not in PLUGRAD_DTYPE_NAMES


def lacks_dtype(device: str, value: Any) -> bool:
    """Whether plugrad, but not the device, has the dtype of a value, or of any element of a list."""
    if is_list(value):
        return any(lacks_dtype(device, part) for part in value)
    return str(getattr(value, "dtype", None)) in PLUGRAD_DTYPE_NAMES - _dtype_names(device)


@cache
def _dtype_names(device: str) -> frozenset[str]:
    """Return the names of the dtypes that a device has."""
    return frozenset(map(str, plugrad.zeros((), device=device).backend.dtypes()))


def as_computable(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array with the same numbers in a dtype that plugrad can compute with."""
    if array.dtype.kind in "OUS":
        strings = [s.decode() if isinstance(s, bytes) else str(s) for s in array.ravel()]
        return np.array(strings, dtype=NUMPY_STRING_DTYPE).reshape(array.shape)
    if not is_stored_only(array.dtype):
        return array
    name = array.dtype.name
    return array.astype(name[: len(name.rstrip("0123456789"))] + "8" if "int" in name else "f4")


def as_tensor(value: Any, device: Any = None) -> Tensor:
    """Convert an array to a tensor; numbers of a dtype that plugrad lacks are widened."""
    if isinstance(value, plugrad.Tensor):
        return value
    return plugrad.asarray(as_computable(np.asarray(value)), device=device)


def as_array(value: Any) -> NDArray[Any]:
    """Convert a tensor to an array; an array is returned unchanged."""
    return value.numpy() if isinstance(value, plugrad.Tensor) else np.asarray(value)
