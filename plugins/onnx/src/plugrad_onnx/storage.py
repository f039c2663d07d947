"""Conversions between dtypes, also those that plugrad does not compute with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

import plugrad
from plugrad_onnx.elements import NUMPY_STRING_DTYPE, as_array, as_tensor, is_stored_only

if TYPE_CHECKING:
    from numpy.typing import NDArray


def cast_to(x: Any, dtype: np.dtype[Any], *, saturate: bool = True, round_mode: str = "up") -> Any:
    """Cast a tensor to another dtype; the result is an array if plugrad lacks the dtype.

    Args:
        x: A tensor, or an array of a dtype that plugrad lacks.
        dtype: The dtype of the result.
        saturate: Whether what is too large for a float8 becomes its largest number.
        round_mode: How exponents of float8_e8m0fnu are rounded.
    """
    text = str(x.dtype) == "string" or dtype is NUMPY_STRING_DTYPE
    if not text and not isinstance(x, np.ndarray) and not is_stored_only(dtype):
        if x.dtype.is_inexact and dtype.kind in "iu" and np.dtype(str(x.dtype)).kind != "c":
            x = plugrad.trunc(x)
        return plugrad.astype(x, dtype.name)
    array = as_array(x)
    if dtype is NUMPY_STRING_DTYPE:
        return as_tensor(
            np.array([_format_number(v) for v in array.ravel()], object).reshape(array.shape)
        )
    if text:
        parsed = np.array([float(str(v)) for v in array.ravel()], np.float64)
        array = parsed.reshape(array.shape)
    return round_to(array, dtype, saturate=saturate, round_mode=round_mode)


def round_to(
    array: NDArray[Any], dtype: np.dtype[Any], *, saturate: bool, round_mode: str = "up"
) -> NDArray[Any]:
    """Cast an array to any dtype with ONNX's rounding."""
    name = dtype.name
    if is_stored_only(array.dtype):
        array = array.astype(np.float32)
    if name == "float8_e8m0fnu":
        return _cast_to_powers_of_two(array, round_mode, saturate)
    if name.startswith(("float8", "float4")):
        return _cast_to_small_floats(array, dtype, saturate)
    if name in ("int4", "uint4", "int2", "uint2"):
        return _cast_to_small_integers(array, name, dtype)
    if array.dtype.kind == "f" and dtype.kind in "iu":
        return np.trunc(array).astype(dtype)
    return array.astype(dtype)


def _format_number(value: Any) -> str:
    """Format a number as ONNX does."""
    return str(value) if isinstance(value, np.integer | np.bool_ | str) else str(np.float32(value))


def _cast_to_small_integers(
    array: NDArray[Any], dtype_name: str, dtype: np.dtype[Any]
) -> NDArray[Any]:
    """Cast to integers of fewer than 8 bits by keeping the low bits."""
    bits = int(dtype_name[-1])
    whole = np.trunc(array).astype(np.int64) & ((1 << bits) - 1)
    if dtype_name[0] == "i":
        whole = np.where(whole >= 1 << (bits - 1), whole - (1 << bits), whole)
    return whole.astype(np.int8).astype(dtype)


def _cast_to_small_floats(
    array: NDArray[Any], dtype: np.dtype[Any], saturate: bool
) -> NDArray[Any]:
    """Cast to floats of 8 or 4 bits; values out of range saturate or become what the format specifies."""
    values = array.astype(np.float32)
    largest = np.float32(ml_dtypes.finfo(dtype).max)  # pyright: ignore[reportUnknownMemberType]
    if saturate or dtype.name.startswith("float4"):
        values = np.where(np.isnan(values), values, np.clip(values, -largest, largest))
    return values.astype(dtype)


def _cast_to_powers_of_two(array: NDArray[Any], round_mode: str, saturate: bool) -> NDArray[Any]:
    """Round to powers of two, stored as exponents only (float8e8m0)."""
    values = np.abs(array.astype(np.float32))
    bits = values.view(np.uint32)
    exponent = (bits >> 23).astype(np.int64)
    rest = bits & 0x7FFFFF
    raised = {"up": rest > 0, "down": np.zeros_like(rest, bool), "nearest": rest >= 0x400000}
    exponent = exponent + raised[round_mode]
    if saturate:
        exponent = np.minimum(exponent, 254)
    exponent = np.where(np.isnan(values), 255, np.minimum(exponent, 255))
    return exponent.astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)
