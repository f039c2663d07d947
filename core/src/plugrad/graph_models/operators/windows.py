"""Convolutions and pooling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.errors import ArgumentValueError
from plugrad.graph_models.registry import register_operator
from plugrad.ops import (
    activation,
    convolution,
    convolution3d,
    depthwise,
    fused,
    linalg,
    morphology,
    normalization,
    pooling,
    pooling3d,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.graph_models.registry import HostArray
    from plugrad.tensor.tensor import Tensor

UNIT_STRIDES = (1, 1, 1, 1)
"""Strides of 1 along all axes of images, batch and channels included."""


@register_operator("Conv1D")
def conv1d(
    x: Tensor, filter: Tensor, *, stride: int = 1, padding: str, data_format: str = "NWC", dilation: int = 1
) -> Tensor:  # fmt: skip
    """Convolve sequences with filters."""
    order: Any = data_format
    return convolution.conv1d(
        x, filter, stride, _padding_argument(padding), data_format=order, dilation=dilation
    )


@register_operator("Conv2D")
def conv2d(
    x: Tensor, filter: Tensor, *, strides: Sequence[int], padding: str, data_format: str = "NHWC",
    dilations: Sequence[int] = UNIT_STRIDES, explicit_paddings: Sequence[int] = (),
) -> Tensor:  # fmt: skip
    """Convolve images with filters."""
    window = _window_arguments(strides, padding, data_format, dilations, explicit_paddings)
    return convolution.conv2d(x, filter, **window)


@register_operator("DepthwiseConv2d", "DepthwiseConv2dNative")
def depthwise_conv2d(
    x: Tensor, filter: Tensor, *, strides: Sequence[int], padding: str, data_format: str = "NHWC",
    dilations: Sequence[int] = UNIT_STRIDES, explicit_paddings: Sequence[int] = (),
) -> Tensor:  # fmt: skip
    """Convolve each channel of images with its own filters."""
    window = _window_arguments(strides, padding, data_format, dilations, explicit_paddings)
    return depthwise.depthwise_conv2d(x, filter, **window)


@register_operator("_FusedConv2D")
def fused_conv2d(
    x: Tensor, filter: Tensor, *args: Tensor, strides: Sequence[int], padding: str, data_format: str = "NHWC",
    dilations: Sequence[int] = UNIT_STRIDES, explicit_paddings: Sequence[int] = (), fused_ops: Sequence[str] = (),
    epsilon: float = 1e-4, leakyrelu_alpha: float = 0.2,
) -> Tensor:  # fmt: skip
    """Convolve images with filters, add a bias and apply an activation."""
    window = _window_arguments(strides, padding, data_format, dilations, explicit_paddings)
    return _run_fused(fused.conv2d, x, filter, args, fused_ops, epsilon, leakyrelu_alpha, window)


@register_operator("FusedDepthwiseConv2dNative")
def fused_depthwise_conv2d(
    x: Tensor, filter: Tensor, *args: Tensor, strides: Sequence[int], padding: str, data_format: str = "NHWC",
    dilations: Sequence[int] = UNIT_STRIDES, explicit_paddings: Sequence[int] = (), fused_ops: Sequence[str] = (),
    epsilon: float = 1e-4, leakyrelu_alpha: float = 0.2,
) -> Tensor:  # fmt: skip
    """Convolve each channel with its own filters, add a bias and apply an activation."""
    window = _window_arguments(strides, padding, data_format, dilations, explicit_paddings)
    return _run_fused(
        fused.depthwise_conv2d, x, filter, args, fused_ops, epsilon, leakyrelu_alpha, window
    )


@register_operator("_FusedMatMul")
def fused_matmul(
    a: Tensor, b: Tensor, *args: Tensor, transpose_a: bool = False, transpose_b: bool = False,
    fused_ops: Sequence[str] = (), epsilon: float = 1e-4, leakyrelu_alpha: float = 0.2,
) -> Tensor:  # fmt: skip
    """Multiply matrices, add a bias and apply an activation; `args` are the bias and the activation's weights."""
    sides = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    return _run_fused(fused.matmul, a, b, args, fused_ops, epsilon, leakyrelu_alpha, sides)


@register_operator("MatMul")
def matmul(a: Tensor, b: Tensor, *, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    """Multiply matrices."""
    return linalg.matmul(a, b, transpose_a, transpose_b)


@register_operator("BatchMatMul", "BatchMatMulV2")
def batch_matmul(a: Tensor, b: Tensor, *, adj_x: bool = False, adj_y: bool = False) -> Tensor:
    """Multiply batches of matrices."""
    return linalg.matmul(a, b, adj_x, adj_y)


@register_operator("Conv2DBackpropInput")
def transposed_conv2d(
    sizes: HostArray, filter: Tensor, x: Tensor, *, strides: Sequence[int], padding: str, data_format: str = "NHWC",
    dilations: Sequence[int] = UNIT_STRIDES, explicit_paddings: Sequence[int] = (),
) -> Tensor:  # fmt: skip
    """Return the gradient of a convolution with respect to its input."""
    window = _window_arguments(strides, padding, data_format, dilations, explicit_paddings)
    batch, *rest = (int(size) for size in sizes.ravel())
    return convolution.conv2d_transpose(
        x, filter, (x.shape[0] if batch < 0 else batch, *rest), **window
    )


@register_operator("Conv3D")
def conv3d(
    x: Tensor, filter: Tensor, *, strides: Sequence[int], padding: str, data_format: str = "NDHWC",
    dilations: Sequence[int] = (1, 1, 1, 1, 1),
) -> Tensor:  # fmt: skip
    """Convolve volumes with filters."""
    order = {"NHWC": "NDHWC", "NCHW": "NCDHW"}.get(data_format, data_format)
    return convolution3d.conv3d(x, filter, **_window_arguments(strides, padding, order, dilations))


@register_operator("Dilation2D")
def dilation2d(
    x: Tensor, filter: Tensor, *, strides: Sequence[int], rates: Sequence[int], padding: str
) -> Tensor:
    """Return the morphological dilation of images: the maximum of window plus filter."""
    return morphology.dilation2d(
        x,
        filter,
        _spatial_numbers(strides, "NHWC"),
        _padding_argument(padding),
        dilations=_spatial_numbers(rates, "NHWC"),
    )


@register_operator("MaxPool")
def max_pool(
    x: Tensor, *, ksize: Sequence[int], strides: Sequence[int], padding: str, data_format: str = "NHWC",
    explicit_paddings: Sequence[int] = (),
) -> Tensor:  # fmt: skip
    """Return the maximum of each window."""
    window = _window_arguments(strides, padding, data_format, None, explicit_paddings)
    return pooling.max_pool(x, _spatial_numbers(ksize, data_format), **window)


@register_operator("AvgPool")
def avg_pool(
    x: Tensor, *, ksize: Sequence[int], strides: Sequence[int], padding: str, data_format: str = "NHWC"
) -> Tensor:  # fmt: skip
    """Return the mean of each window."""
    window = _window_arguments(strides, padding, data_format, None)
    return pooling.avg_pool(x, _spatial_numbers(ksize, data_format), **window)


@register_operator("MaxPoolWithArgmax", output_names=("output", "argmax"))
def max_pool_with_argmax(
    x: Tensor, *, ksize: Sequence[int], strides: Sequence[int], padding: str, include_batch_in_index: bool = False
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the maximum of each window and its index."""
    return pooling.max_pool_with_argmax(
        x, _spatial_numbers(ksize, "NHWC"), _spatial_numbers(strides, "NHWC"), _padding_argument(padding),
        include_batch_in_index=include_batch_in_index,
    )  # fmt: skip


@register_operator("MaxPool3D")
def max_pool3d(x: Tensor, *, ksize: Sequence[int], strides: Sequence[int], padding: str) -> Tensor:
    """Return the maximum of each window of volumes."""
    window = _window_arguments(strides, padding, "NDHWC", None)
    return pooling3d.max_pool3d(x, _spatial_numbers(ksize, "NDHWC"), **window)


@register_operator("AvgPool3D")
def avg_pool3d(x: Tensor, *, ksize: Sequence[int], strides: Sequence[int], padding: str) -> Tensor:
    """Return the mean of each window of volumes."""
    window = _window_arguments(strides, padding, "NDHWC", None)
    return pooling3d.avg_pool3d(x, _spatial_numbers(ksize, "NDHWC"), **window)


@register_operator("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def batch_norm(
    x: Tensor, scale: Tensor, offset: Tensor, mean: Tensor, variance: Tensor, *, epsilon: float = 1e-3
) -> Tensor:  # fmt: skip
    """Normalize channels with given statistics."""
    return normalization.batch_norm(x, mean, variance, offset, scale, variance_epsilon=epsilon)


@register_operator("LRN")
def local_response_normalization(
    x: Tensor, *, depth_radius: int = 5, bias: float = 1.0, alpha: float = 1.0, beta: float = 0.5
) -> Tensor:
    """Divide each element by a power of the sum of squares over neighbouring channels."""
    return normalization.local_response_normalization(x, depth_radius, bias, alpha, beta)


@register_operator("Softmax")
def softmax(x: Tensor) -> Tensor:
    """Return the softmax along the last axis."""
    return normalization.softmax(x)


@register_operator("LogSoftmax")
def log_softmax(x: Tensor) -> Tensor:
    """Return the logarithm of the softmax along the last axis."""
    return normalization.log_softmax(x)


def _run_fused(
    compute: Callable[..., Tensor], x: Tensor, y: Tensor, args: Sequence[Tensor], fused_op_names: Sequence[str],
    epsilon: float, alpha: float, options: dict[str, Any],
) -> Tensor:  # fmt: skip
    """Run the product or convolution `compute` of x and y, then what `fused_op_names` lists with the inputs `args`."""
    steps = [name.lower() for name in fused_op_names]
    rest = list(args)
    if steps[:1] == ["fusedbatchnorm"]:
        scale, offset, mean, variance = rest[:4]
        result = compute(x, y, **options)
        result = normalization.batch_norm(
            result, mean, variance, offset, scale, variance_epsilon=epsilon
        )
        if len(steps) == 1:
            return result
        from_here = {"relu", "relu6", "elu", "sigmoid", "leakyrelu"}
        return _apply_activation(result, steps[1], from_here, alpha)
    bias = rest.pop(0) if steps[:1] == ["biasadd"] else None
    activations = steps[bias is not None :] or ["linear"]
    weights = rest.pop(0) if activations[0] == "prelu" else None
    return compute(
        x, y, **options, bias=bias, activation=activations[0], prelu_activation_weights=weights, leakyrelu_alpha=alpha
    )  # fmt: skip


def _apply_activation(
    x: Tensor, activation_name: str, supported_activations: set[str], alpha: float
) -> Tensor:
    """Return x after the named activation; raise unless it is a supported one. `alpha` is the slope of LeakyRelu."""
    if activation_name not in supported_activations:
        raise ArgumentValueError(
            f"fused_ops names {activation_name!r}; known are {', '.join(sorted(supported_activations))}"
        )
    if activation_name == "leakyrelu":
        return activation.leaky_relu(x, alpha)
    return getattr(activation, activation_name)(x)


def _window_arguments(
    strides: Sequence[int], padding: str, data_format: str, dilations: Sequence[int] | None,
    explicit_paddings: Sequence[int] = (),
) -> dict[str, Any]:  # fmt: skip
    """Return the keyword arguments of an op for a window."""
    options: dict[str, Any] = {
        "strides": _spatial_numbers(strides, data_format),
        "data_format": data_format,
    }
    options["padding"] = _padding_argument(padding, explicit_paddings, data_format)
    if dilations is not None:
        options["dilations"] = _spatial_numbers(dilations, data_format)
    return options


def _spatial_numbers(numbers: Sequence[int], data_format: str) -> tuple[int, ...]:
    """Return the entries for the spatial axes, given one for each axis."""
    return tuple(numbers[2:] if data_format.startswith("NC") else numbers[1:-1])


def _padding_argument(
    padding: str, explicit_paddings: Sequence[int] = (), data_format: str = "NHWC"
) -> Any:
    """Return TensorFlow's padding as the padding argument of an op."""
    if padding == "EXPLICIT":
        pairs: Any = tuple(zip(explicit_paddings[::2], explicit_paddings[1::2], strict=True))
        return _spatial_numbers(pairs, data_format)
    return padding.lower()
