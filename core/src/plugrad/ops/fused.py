"""Products and convolutions with a bias and an activation, in one kernel.

The results are those of the separate functions; intermediate results are not stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.engine.channels import broadcastable_channels_last
from plugrad.kernels import fused as kernels
from plugrad.ops.arguments import cast, promote_operands
from plugrad.ops.attributes import check_flag, check_real
from plugrad.ops.convolution import as_batch_with_channels_last, run_channels_last_convolution
from plugrad.ops.dtypes import check_floats
from plugrad.ops.windows import restore_layout
from plugrad.types.windows import is_channels_first

if TYPE_CHECKING:
    from plugrad.contract.kernel import Kernel
    from plugrad.kernels.fused import Activation
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.specs import ShapeLike
    from plugrad.types.windows import ImageFormat, PaddingLike, Rounding


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
    """The activation of a matrix product plus a bias: ``activation(a @ b + bias)``.

    >>> plugrad.fused.matmul([[1.0, 2.0]], [[1.0, -1.0], [2.0, -2.0]], bias=0.5, activation="relu")
    tensor([[5.5, 0. ]], dtype=float32)

    The result has the shape of the product and the dtype to which all operands promote; integers
    and bools give float32.

    Args:
        a: matrices on the last two axes; the axes before them are broadcast.
        b: matrices, likewise.
        transpose_a: whether rows and columns of `a` are exchanged.
        transpose_b: whether rows and columns of `b` are exchanged.
        bias: what is added to the product; it broadcasts to the shape of the product.
        activation: "linear", "relu", "relu6", "elu", "sigmoid", "leakyrelu" or "prelu".
        prelu_activation_weights: the slopes of "prelu" for negative elements; they broadcast to the
            result.
        leakyrelu_alpha: the slope of "leakyrelu" for negative elements.

    Raises:
        DTypeError: an operand holds complex numbers or strings, or no dtype holds all operands.
        ShapeError: the shapes do not match, or an operand has fewer than 2 axes.
        ArgumentError: `transpose_a` or `transpose_b` is not a bool, or `leakyrelu_alpha` is not a
            number.
        ArgumentValueError: `activation` is unknown, `leakyrelu_alpha` is NaN, or
            `prelu_activation_weights` are missing for "prelu" or given for another activation.
    """
    operands = _promote_operands(kernels.matmul, "matmul", a, b, bias, prelu_activation_weights)
    return kernels.matmul(
        *operands,
        transpose_a=check_flag(transpose_a, "matmul", "transpose_a"),
        transpose_b=check_flag(transpose_b, "matmul", "transpose_b"),
        activation=activation,
        leakyrelu_alpha=check_real(leakyrelu_alpha, "matmul", "leakyrelu_alpha"),
    )


def conv2d(
    x: TensorLike,
    filter: TensorLike,
    strides: ShapeLike = 1,
    padding: PaddingLike = "valid",
    *,
    data_format: ImageFormat = "NHWC",
    dilations: ShapeLike = 1,
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

    The result has the shape that `plugrad.conv2d` gives and the dtype to which all operands
    promote.

    Args:
        x: images; this argument and those up to `dim_rounding_mode` are as for `plugrad.conv2d`.
        filter: filters of shape (height, width, input channels, output channels).
        strides: the distance between neighbouring positions of the filter.
        padding: "valid", "same", a number of cells, or ((top, bottom), (left, right)).
        data_format: "NHWC" or "NCHW".
        dilations: the distance between neighbouring cells of the filter.
        dim_rounding_mode: what to do with a last, partial stride.
        bias: one number for each output channel, or any shape that broadcasts to the result.
        activation: "linear", "relu", "relu6", "elu", "sigmoid", "leakyrelu" or "prelu".
        prelu_activation_weights: the slopes of "prelu" for negative elements, in a shape like that
            of `bias`.
        leakyrelu_alpha: the slope of "leakyrelu" for negative elements.

    Raises:
        DTypeError: x or filter is a tensor or an array that does not hold floats, or another
            operand holds complex numbers or strings.
        ShapeError: the shapes do not match, or the filter does not fit.
        ArgumentError: `leakyrelu_alpha` is not a number.
        ArgumentValueError: `prelu_activation_weights` are missing for "prelu" or given for another
            activation, or another argument is none of the above.
    """
    how = strides, padding, dilations, dim_rounding_mode
    operands = x, filter, bias, prelu_activation_weights
    end = activation, leakyrelu_alpha
    return _run_fused_convolution(kernels.conv2d, "conv2d", operands, data_format, how, *end)


def depthwise_conv2d(
    x: TensorLike,
    filter: TensorLike,
    strides: ShapeLike = 1,
    padding: PaddingLike = "valid",
    *,
    data_format: ImageFormat = "NHWC",
    dilations: ShapeLike = 1,
    dim_rounding_mode: Rounding = None,
    bias: TensorLike | None = None,
    activation: Activation = "linear",
    prelu_activation_weights: TensorLike | None = None,
    leakyrelu_alpha: float = 0.2,
) -> Tensor:
    """The activation of `plugrad.depthwise_conv2d` plus a bias.

    >>> images = plugrad.asarray([[[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]]])
    >>> filters = plugrad.ones((1, 2, 2, 1))
    >>> plugrad.fused.depthwise_conv2d(images, filters, bias=[-4, 0], activation="relu6")[0]
    tensor([[0., 6.],
            [2., 6.]], dtype=float32)

    The result has the shape that `plugrad.depthwise_conv2d` gives and the dtype to which all
    operands promote.

    Args:
        x: images; this argument and those up to `dim_rounding_mode` are as for
            `plugrad.depthwise_conv2d`.
        filter: filters of shape (height, width, channels, multiplier).
        strides: the distance between neighbouring positions of the filter.
        padding: "valid", "same", a number of cells, or ((top, bottom), (left, right)).
        data_format: "NHWC" or "NCHW".
        dilations: the distance between neighbouring cells of the filter.
        dim_rounding_mode: what to do with a last, partial stride.
        bias: one number for each output channel, or any shape that broadcasts to the result.
        activation: "linear", "relu", "relu6", "elu", "sigmoid", "leakyrelu" or "prelu".
        prelu_activation_weights: the slopes of "prelu" for negative elements, in a shape like that
            of `bias`.
        leakyrelu_alpha: the slope of "leakyrelu" for negative elements.

    Raises:
        DTypeError: x or filter is a tensor or an array that does not hold floats, or another
            operand holds complex numbers or strings.
        ShapeError: the shapes do not match, or the filter does not fit.
        ArgumentError: `leakyrelu_alpha` is not a number.
        ArgumentValueError: `prelu_activation_weights` are missing for "prelu" or given for another
            activation, or another argument is none of the above.
    """
    how = strides, padding, dilations, dim_rounding_mode
    operands = x, filter, bias, prelu_activation_weights
    end = activation, leakyrelu_alpha
    return _run_fused_convolution(
        kernels.depthwise_conv2d, "depthwise_conv2d", operands, data_format, how, *end
    )


def _promote_operands(
    kernel: Kernel[..., Tensor],
    op: str,
    a: TensorLike,
    b: TensorLike,
    bias: TensorLike | None,
    weights: TensorLike | None,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Return the operands as tensors of one dtype; bias and weights may be absent."""
    first, second = promote_operands(a, b, kernel, op)
    if bias is not None:
        first, bias = promote_operands(first, bias, kernel, op)
    if weights is not None:
        first, weights = promote_operands(first, weights, kernel, op)
    second = cast(second, first.dtype)
    bias = None if bias is None else cast(bias, first.dtype)
    return first, second, bias, weights


def _run_fused_convolution(
    kernel: Kernel[..., Tensor],
    op: str,
    operands: tuple[TensorLike, TensorLike, TensorLike | None, TensorLike | None],
    data_format: ImageFormat,
    window_arguments: tuple[ShapeLike, PaddingLike, ShapeLike, Rounding],
    activation: Activation,
    alpha: float,
) -> Tensor:
    """Return the result of a fused convolution kernel for images as they are given to an op."""
    x, filter, bias, weights = operands
    check_floats(op, x=x, filter=filter)
    images, filters, *others = _promote_operands(kernel, op, x, filter, bias, weights)
    has_channels_first = is_channels_first(data_format, 2, op)
    if has_channels_first:
        others = [z if z is None else broadcastable_channels_last(z, 2) for z in others]
    batch = as_batch_with_channels_last(op, 2, images, filters, has_channels_first)
    y = run_channels_last_convolution(
        *(kernel, op, batch, filters, *window_arguments, *others),
        activation=activation,
        leakyrelu_alpha=check_real(alpha, op, "leakyrelu_alpha"),
    )
    return restore_layout(y, images, has_channels_first)
