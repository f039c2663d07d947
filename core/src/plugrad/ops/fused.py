"""Products and convolutions with a bias and an activation, in one kernel.

They give what the separate functions give, without storing what lies between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.kernels import fused as kernels
from plugrad.ops.arguments import cast, check_floats, promoted
from plugrad.ops.attributes import flag, real
from plugrad.ops.convolution import batched, sliding, unbatched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.contract.kernel import Kernel
    from plugrad.kernels.fused import Activation
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.windows import DataFormat, Rounding


def matmul(
    a: TensorLike,
    b: TensorLike,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    bias: TensorLike | None = None,
    activation: Activation = "linear",
    prelu_activation_weights: TensorLike | None = None,
    leakyrelu_alpha: float = 0.2,
) -> Tensor:
    """The activation of a matrix product plus a bias.

    >>> plugrad.fused.matmul([[1.0, 2.0]], [[1.0, -1.0], [2.0, -2.0]], bias=0.5, activation="relu")
    tensor([[5.5, 0. ]], dtype=float32)

    Args:
        a: matrices in the last two axes; the axes before them are broadcast.
        b: matrices as well.
        transpose_a: whether rows and columns of `a` are exchanged.
        transpose_b: whether rows and columns of `b` are exchanged.
        bias: added to the product; it broadcasts to its shape.
        activation: "linear", "relu", "relu6", "elu", "sigmoid", "leakyrelu" or "prelu".
        prelu_activation_weights: the slopes of "prelu" for negative elements; they broadcast to the
            result.
        leakyrelu_alpha: the slope of "leakyrelu" for negative elements.

    Raises:
        ShapeError: the shapes do not match.
        ArgumentValueError: the activation is unknown, lacks its weights, or takes none.
    """
    operands = _operands(kernels.matmul, "matmul", a, b, bias, prelu_activation_weights)
    return kernels.matmul(
        *operands,
        transpose_a=flag(transpose_a, "matmul", "transpose_a"),
        transpose_b=flag(transpose_b, "matmul", "transpose_b"),
        activation=activation,
        leakyrelu_alpha=real(leakyrelu_alpha, "matmul", "leakyrelu_alpha"),
    )


def conv2d(
    x: TensorLike,
    filter: TensorLike,
    strides: int | Sequence[int] = 1,
    pad: Any = "valid",
    *,
    data_format: DataFormat = "NHWC",
    dilations: int | Sequence[int] = 1,
    dim_rounding_mode: Rounding = None,
    bias: TensorLike | None = None,
    activation: Activation = "linear",
    prelu_activation_weights: TensorLike | None = None,
    leakyrelu_alpha: float = 0.2,
) -> Tensor:
    """The activation of `plugrad.conv2d` plus a bias.

    >>> images = plugrad.asarray([[[1.0], [2.0], [4.0]]])
    >>> filters = plugrad.asarray([[[[1.0, -1.0]]]])
    >>> plugrad.fused.conv2d(images, filters, bias=[0.5, 2.5], activation="relu")[0]
    tensor([[1.5, 1.5],
            [2.5, 0.5],
            [4.5, 0. ]], dtype=float32)

    Args:
        x: images, and the arguments up to `dim_rounding_mode`, as for `plugrad.conv2d`.
        filter: of shape (height, width, input channels, output channels).
        strides: cells between two stops of the filter.
        pad: "valid", "same", a number of cells, or ((top, bottom), (left, right)).
        data_format: "NHWC" or "NCHW".
        dilations: cells between two cells of the filter.
        dim_rounding_mode: what to do with a last, partial stride.
        bias: one number for each output channel, or whatever broadcasts to the result.
        activation: "linear", "relu", "relu6", "elu", "sigmoid", "leakyrelu" or "prelu".
        prelu_activation_weights: the slopes of "prelu" for negative elements, shaped like a bias.
        leakyrelu_alpha: the slope of "leakyrelu" for negative elements.

    Raises:
        DTypeError: images or filters are whole numbers.
        ShapeError: the shapes do not match, or the filter does not fit.
        ArgumentValueError: another argument makes no sense, or the activation is unknown, lacks its
            weights, or takes none.
    """
    check_floats("conv2d", x=x, filter=filter)
    attrs = sliding("conv2d", 2, strides, pad, data_format, dilations, dim_rounding_mode)
    operands = _operands(kernels.conv2d, "conv2d", x, filter, bias, prelu_activation_weights)
    return _slid(
        kernels.conv2d, "conv2d", *operands, attrs, activation=activation, alpha=leakyrelu_alpha
    )


def depthwise_conv2d(
    x: TensorLike,
    filter: TensorLike,
    strides: int | Sequence[int] = 1,
    pad: Any = "valid",
    *,
    data_format: DataFormat = "NHWC",
    dilations: int | Sequence[int] = 1,
    dim_rounding_mode: Rounding = None,
    bias: TensorLike | None = None,
    activation: Activation = "linear",
    prelu_activation_weights: TensorLike | None = None,
    leakyrelu_alpha: float = 0.2,
) -> Tensor:
    """The activation of `plugrad.depthwise_conv2d` plus a bias; other arguments as for `conv2d`.

    >>> images = plugrad.asarray([[[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]]])
    >>> filters = plugrad.ones((1, 2, 2, 1))
    >>> plugrad.fused.depthwise_conv2d(images, filters, bias=[-4, 0], activation="relu6")[0]
    tensor([[0., 6.],
            [2., 6.]], dtype=float32)

    Args:
        x: images, and the arguments up to `dim_rounding_mode`, as for `plugrad.depthwise_conv2d`.
        filter: of shape (height, width, channels, multiplier).
        strides: cells between two stops of the filter.
        pad: "valid", "same", a number of cells, or ((top, bottom), (left, right)).
        data_format: "NHWC" or "NCHW".
        dilations: cells between two cells of the filter.
        dim_rounding_mode: what to do with a last, partial stride.
        bias: one number for each output channel, or whatever broadcasts to the result.
        activation: "linear", "relu", "relu6", "elu", "sigmoid", "leakyrelu" or "prelu".
        prelu_activation_weights: the slopes of "prelu" for negative elements, shaped like a bias.
        leakyrelu_alpha: the slope of "leakyrelu" for negative elements.

    Raises:
        DTypeError: images or filters are whole numbers.
        ShapeError: the shapes do not match, or the filter does not fit.
        ArgumentValueError: another argument makes no sense, or the activation is unknown, lacks its
            weights, or takes none.
    """
    op = "depthwise_conv2d"
    check_floats(op, x=x, filter=filter)
    attrs = sliding(op, 2, strides, pad, data_format, dilations, dim_rounding_mode)
    kernel = kernels.depthwise_conv2d
    operands = _operands(kernel, op, x, filter, bias, prelu_activation_weights)
    return _slid(kernel, op, *operands, attrs, activation=activation, alpha=leakyrelu_alpha)


def _operands(
    kernel: Kernel[..., Tensor],
    op: str,
    a: TensorLike,
    b: TensorLike,
    bias: TensorLike | None,
    weights: TensorLike | None,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Return the operands as tensors of one dtype; bias and weights may be absent."""
    first, second = promoted(a, b, kernel, op)
    if bias is not None:
        first, bias = promoted(first, bias, kernel, op)
    if weights is not None:
        first, weights = promoted(first, weights, kernel, op)
    return (
        first,
        cast(second, first.dtype),
        bias if bias is None else cast(bias, first.dtype),
        weights,
    )


def _slid(
    kernel: Kernel[..., Tensor],
    op: str,
    images: Tensor,
    filters: Tensor,
    bias: Tensor | None,
    weights: Tensor | None,
    attrs: dict[str, Any],
    *,
    activation: Activation,
    alpha: float,
) -> Tensor:
    images, is_single = batched(op, images, filters, 2)
    finish = {"activation": activation, "leakyrelu_alpha": real(alpha, op, "leakyrelu_alpha")}
    return unbatched(kernel(images, filters, bias, weights, **attrs, **finish), is_single)
