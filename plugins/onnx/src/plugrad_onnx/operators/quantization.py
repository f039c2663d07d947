"""Quantized numbers: integers, or small floats, with a scale and a zero point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

import plugrad
from plugrad_onnx.elements import as_array, as_tensor, is_array, is_stored_only, numpy_dtype
from plugrad_onnx.operators.convolution import conv
from plugrad_onnx.registry import operator
from plugrad_onnx.storage import cast_to, round_to

if TYPE_CHECKING:
    from plugrad import Tensor
    from plugrad_onnx.execution import Scope
    from plugrad_onnx.registry import AnyInputValue, FilterTensor, TensorOrHostArray


@operator("QuantizeLinear")
def quantize_linear(
    x: Tensor,
    scale: TensorOrHostArray,
    zero_point: AnyInputValue | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Any:
    """Return round(x / scale) + zero_point, clipped to the range of its dtype."""
    dtype = _quantized_dtype(zero_point, output_dtype)
    factor = _align_scale(_as_float32(scale, x.device), x, axis, block_size)
    whole = plugrad.divide(_as_float32(x, x.device), factor)
    if dtype.name.startswith("float"):
        return round_to(as_array(whole), dtype, saturate=bool(saturate))
    whole = plugrad.round(whole)
    if zero_point is not None:
        whole = plugrad.add(
            whole, _align_scale(_as_float32(zero_point, x.device), x, axis, block_size)
        )
    return _clip_to_dtype(whole, dtype)


@operator("DequantizeLinear")
def dequantize_linear(
    x: TensorOrHostArray,
    scale: TensorOrHostArray,
    zero_point: TensorOrHostArray | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    scope: Scope,
) -> Any:
    """Return (x − zero_point) · scale."""
    values = _as_float32(x, scope.device)
    if zero_point is not None:
        values = plugrad.subtract(
            values, _align_scale(_as_float32(zero_point, scope.device), values, axis, block_size)
        )
    values = plugrad.multiply(
        values, _align_scale(_as_float32(scale, scope.device), values, axis, block_size)
    )
    dtype = numpy_dtype(output_dtype) if output_dtype else np.dtype(_as_numpy_dtype(scale))
    return cast_to(values, dtype)


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return x as uint8 with the scale and zero point of its own range."""
    high = plugrad.maximum(plugrad.max(x), 0.0)
    low = plugrad.minimum(plugrad.min(x), 0.0)
    scale = plugrad.divide(high - low, 255.0)
    zero = plugrad.clip(plugrad.round(plugrad.divide(plugrad.negative(low), scale)), 0, 255)
    quantized = plugrad.clip(plugrad.round(plugrad.divide(x, scale)) + zero, 0, 255)
    return plugrad.astype(quantized, "uint8"), scale, plugrad.astype(zero, "uint8")


@operator("MatMulInteger")
def matmul_integer(
    a: Tensor, b: Tensor, a_zero_point: Tensor | None = None, b_zero_point: Tensor | None = None
) -> Tensor:
    """Return the int32 product of 8-bit matrices after subtraction of their zero points."""
    left, right = plugrad.astype(a, "int32"), plugrad.astype(b, "int32")
    if a_zero_point is not None:
        left = left - plugrad.astype(_as_row_factors(a_zero_point), "int32")
    if b_zero_point is not None:
        right = right - plugrad.astype(b_zero_point, "int32")
    return plugrad.matmul(left, right)


@operator("QLinearMatMul")
def qlinear_matmul(
    a: TensorOrHostArray,
    a_scale: Tensor,
    a_zero_point: TensorOrHostArray,
    b: TensorOrHostArray,
    b_scale: Tensor,
    b_zero_point: TensorOrHostArray,
    y_scale: Tensor,
    y_zero_point: AnyInputValue,
    *,
    scope: Scope,
) -> Any:
    """Return the quantized product of quantized matrices."""
    left = (
        _as_float32(a, scope.device) - _as_row_factors(_as_float32(a_zero_point, scope.device))
    ) * _as_row_factors(_as_float32(a_scale, scope.device))
    right = (_as_float32(b, scope.device) - _as_float32(b_zero_point, scope.device)) * _as_float32(
        b_scale, scope.device
    )
    product = plugrad.divide(plugrad.matmul(left, right), _as_float32(y_scale, scope.device))
    dtype = np.dtype(_as_numpy_dtype(y_zero_point))
    if dtype.name.startswith("float"):
        return round_to(as_array(product), dtype, saturate=True)
    return _clip_to_dtype(plugrad.round(product) + _as_float32(y_zero_point, scope.device), dtype)


@operator("ConvInteger", layout="images")
def conv_integer(
    x: Tensor,
    filters: FilterTensor,
    x_zero_point: Tensor | None = None,
    filters_zero_point: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Any = None,
    group: int = 1,
    kernel_shape: Any = None,
    pads: Any = None,
    strides: Any = None,
) -> Tensor:
    """Return the int32 convolution of 8-bit images after subtraction of zero points."""
    images, weights = _as_float32(x, x.device), _as_float32(filters, x.device)
    images = images if x_zero_point is None else images - _as_float32(x_zero_point, x.device)
    weights = (
        weights
        if filters_zero_point is None
        else weights - _as_float32(filters_zero_point, x.device)
    )
    result = conv(
        images, weights, auto_pad=auto_pad, dilations=dilations, group=group, pads=pads,
        strides=strides,
    )  # fmt: skip
    return plugrad.astype(plugrad.round(result), "int32")


@operator("QLinearConv", layout="images")
def qlinear_conv(
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor,
    filters: FilterTensor,
    filters_scale: Tensor,
    filters_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: AnyInputValue,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Any = None,
    group: int = 1,
    kernel_shape: Any = None,
    pads: Any = None,
    strides: Any = None,
) -> Any:
    """Return the quantized convolution of quantized images."""
    images, weights = (
        _as_float32(x, x.device) - _as_float32(x_zero_point, x.device),
        _as_float32(filters, x.device) - _as_float32(filters_zero_point, x.device),
    )
    result = conv(
        images, weights, None if bias is None else _as_float32(bias, x.device), auto_pad=auto_pad,
        dilations=dilations, group=group, pads=pads, strides=strides,
    )  # fmt: skip
    scale = plugrad.divide(plugrad.multiply(x_scale, filters_scale), y_scale)
    whole = plugrad.round(plugrad.multiply(result, scale)) + _as_float32(y_zero_point, x.device)
    return _clip_to_dtype(whole, np.dtype(_as_numpy_dtype(y_zero_point)))


def _as_numpy_dtype(x: Any) -> Any:
    """Return the NumPy dtype of x, or x itself if it is a dtype."""
    return x.dtype if is_array(x) else x.dtype.name


def _quantized_dtype(zero_point: Any, output_dtype: int) -> np.dtype[Any]:
    """Return the dtype of the quantized result."""
    if zero_point is not None:
        return np.dtype(_as_numpy_dtype(zero_point))
    return numpy_dtype(output_dtype or 2)


def _as_float32(x: Any, device: Any) -> Tensor:
    """Convert x to a float32 tensor, in which quantized values are computed."""
    return plugrad.astype(as_tensor(x, device), "float32")


def _as_row_factors(x: Tensor) -> Tensor:
    """Reshape a vector with one value per matrix row to a column; leave a scalar unchanged."""
    return plugrad.expand_dims(x, axis=-1) if x.ndim == 1 and x.shape[0] > 1 else x


def _align_scale(scale: Tensor, tensor: Any, axis: int, block_size: int) -> Tensor:
    """Reshape or repeat a scale (per tensor, per axis or per block) to broadcast with a tensor."""
    if block_size and scale.ndim == tensor.ndim:
        repeated = plugrad.repeat(scale, block_size, axis=axis)
        return repeated[tuple(slice(0, size) for size in tensor.shape)]
    if scale.ndim != 1:
        return scale
    if scale.shape[0] == 1:
        return plugrad.reshape(scale, ())
    place = axis % tensor.ndim
    return plugrad.reshape(scale, [-1 if a == place else 1 for a in range(tensor.ndim)])


def _clip_to_dtype(integers: Tensor, dtype: np.dtype[Any]) -> Any:
    """Clip integers to the range of a dtype and cast them."""
    limits = (ml_dtypes.iinfo if is_stored_only(dtype) else np.iinfo)(dtype)
    bounded = plugrad.clip(integers, float(limits.min), float(limits.max))
    if is_stored_only(dtype):
        return round_to(as_array(bounded), dtype, saturate=True)
    return plugrad.astype(bounded, dtype.name)
