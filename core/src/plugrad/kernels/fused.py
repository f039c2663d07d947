"""Kernels that add a bias to a product or convolution and apply an activation, in one pass.

`bias` and `prelu_activation_weights` are optional; they broadcast to the result.

Args:
    x: images (batch, height, width, channels).
    filter: filters of the dtype of the images.
    window: how the filters slide over the images; its size is that of the filters.
    bias: what is added to the result before the activation, of the dtype of the other inputs.
    prelu_activation_weights: the slopes where the sum is 0 or less, for the activation "prelu" and only for that.
    activation: the function of the sum; "linear" is none, the others are in the family activation.
    leakyrelu_alpha: the slope where the sum is 0 or less, for the activation "leakyrelu".
"""

from typing import Final, Literal, get_args

from plugrad.contract.kernel import check_same_dtype, kernel
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.kernels.convolution import convolution_shape
from plugrad.kernels.linalg import matmul_shape
from plugrad.types.dtype import FLOATING
from plugrad.types.shapes import broadcasts_to
from plugrad.types.specs import Shaped, Spec
from plugrad.types.windows import Window

Activation = Literal["linear", "relu", "relu6", "elu", "sigmoid", "leakyrelu", "prelu"]
ACTIVATIONS: Final[tuple[Activation, ...]] = get_args(Activation)


@kernel("_FusedMatMul", accepts=FLOATING)
def matmul(
    a: Spec,
    b: Spec,
    bias: Spec | None = None,
    prelu_activation_weights: Spec | None = None,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    activation: Activation = "linear",
    leakyrelu_alpha: float = 0.2,
) -> Spec:
    """Return the activation of a product of matrices, as in BatchMatMul, plus the bias.

    Args:
        a: matrices (…, rows, inner), or (…, inner, rows) with `transpose_a`.
        b: matrices (…, inner, columns), or (…, columns, inner) with `transpose_b`, of the dtype of a.
        transpose_a: whether the last two axes of a are exchanged.
        transpose_b: whether the last two axes of b are exchanged.

    Returns:
        matrices (…, rows, columns) in the dtype of a; the axes before them are broadcast.
    """
    shape = matmul_shape(a.shape, b.shape, transpose_a, transpose_b)
    out = Shaped(shape, check_same_dtype("_FusedMatMul", a, b))
    _check_operands("_FusedMatMul", out, bias, prelu_activation_weights, activation)
    return out


@kernel("FusedConv2D", accepts=FLOATING)
def conv2d(
    x: Spec,
    filter: Spec,
    bias: Spec | None = None,
    prelu_activation_weights: Spec | None = None,
    *,
    window: Window,
    activation: Activation = "linear",
    leakyrelu_alpha: float = 0.2,
) -> Spec:
    """Return ``activation(conv2d(x, filter) + bias)``.

    Returns:
        images (batch, *window.out, output channels) in the dtype of x.
    """
    shape = convolution_shape(2, x.shape, filter.shape, window)
    out = Shaped(shape, check_same_dtype("FusedConv2D", x, filter))
    _check_operands("FusedConv2D", out, bias, prelu_activation_weights, activation)
    return out


@kernel("FusedDepthwiseConv2D", accepts=FLOATING)
def depthwise_conv2d(
    x: Spec,
    filter: Spec,
    bias: Spec | None = None,
    prelu_activation_weights: Spec | None = None,
    *,
    window: Window,
    activation: Activation = "linear",
    leakyrelu_alpha: float = 0.2,
) -> Spec:
    """Return ``activation(depthwise_conv2d(x, filter) + bias)``.

    Returns:
        images (batch, *window.out, channels * multiplier) in the dtype of x.
    """
    shape = convolution_shape(2, x.shape, filter.shape, window, is_depthwise=True)
    out = Shaped(shape, check_same_dtype("FusedDepthwiseConv2D", x, filter))
    _check_operands("FusedDepthwiseConv2D", out, bias, prelu_activation_weights, activation)
    return out


def _check_operands(
    kernel_name: str, out: Spec, bias: Spec | None, weights: Spec | None, activation: Activation
) -> None:
    """Check that the bias and the weights fit the result and the activation."""
    if (activation == "prelu") != (weights is not None):
        raise ArgumentValueError(
            f"activation={activation!r} and prelu_activation_weights "
            f"{'are missing' if weights is None else 'are given'}; "
            "'prelu' needs them and no other activation takes them"
        )
    for label, x in (("bias", bias), ("prelu_activation_weights", weights)):
        if x is not None:
            check_same_dtype(kernel_name, out, x)
            if not broadcasts_to(x.shape, out.shape):
                raise ShapeError(
                    f"{label} has shape {x.shape}, which does not broadcast to the result of shape {out.shape}"
                )
