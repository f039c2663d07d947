"""Kernels that add a bias to a product or convolution and apply an activation, in one pass.

`bias` and `prelu_activation_weights` may be absent; they broadcast to the result. Beside images
with their channels first, a 1-d one has an element for each channel.
"""

from typing import Final, Literal, get_args

from plugrad.contract.kernel import accepted, agreed, kernel
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.kernels import linalg
from plugrad.kernels.convolution import convolved
from plugrad.types.dtype import FLOATING
from plugrad.types.shapes import stretches
from plugrad.types.specs import Shape, Shaped, Spec
from plugrad.types.windows import DataFormat, Padding, Rounding, format_of

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
    """Multiply matrices as BatchMatMul does, add the bias and apply the activation."""
    accepted("_FusedMatMul", a, FLOATING)
    out = linalg.matmul.infer(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    return _finished("_FusedMatMul", out, bias, prelu_activation_weights, activation)


@kernel("FusedConv2D", accepts=FLOATING)
def conv2d(
    x: Spec,
    filter: Spec,
    bias: Spec | None = None,
    prelu_activation_weights: Spec | None = None,
    *,
    strides: Shape,
    pad: Padding,
    data_format: DataFormat = "NHWC",
    dilations: Shape = (1, 1),
    dim_rounding_mode: Rounding = None,
    activation: Activation = "linear",
    leakyrelu_alpha: float = 0.2,
) -> Spec:
    """Convolve as Conv2D does, add the bias and apply the activation."""
    name = "FusedConv2D"
    accepted(name, x, FLOATING)
    sliding = strides, pad, format_of(data_format, 2, name), dilations, dim_rounding_mode
    shape = convolved(name, x.shape, filter.shape, *sliding)
    out = Shaped(shape, agreed(name, x, filter))
    return _finished(name, out, bias, prelu_activation_weights, activation, data_format)


@kernel("FusedDepthwiseConv2D", accepts=FLOATING)
def depthwise_conv2d(
    x: Spec,
    filter: Spec,
    bias: Spec | None = None,
    prelu_activation_weights: Spec | None = None,
    *,
    strides: Shape,
    pad: Padding,
    data_format: DataFormat = "NHWC",
    dilations: Shape = (1, 1),
    dim_rounding_mode: Rounding = None,
    activation: Activation = "linear",
    leakyrelu_alpha: float = 0.2,
) -> Spec:
    """Convolve as DepthwiseConv2dNative does, add the bias and apply the activation."""
    name = "FusedDepthwiseConv2D"
    accepted(name, x, FLOATING)
    sliding = strides, pad, format_of(data_format, 2, name), dilations, dim_rounding_mode
    shape = convolved(name, x.shape, filter.shape, *sliding, is_depthwise=True)
    out = Shaped(shape, agreed(name, x, filter))
    return _finished(name, out, bias, prelu_activation_weights, activation, data_format)


def beside_images(shape: Shape, data_format: DataFormat) -> Shape:
    """Return the shape in which a bias of a shape broadcasts to images.

    >>> beside_images((8,), "NHWC"), beside_images((8,), "NCHW")
    ((8,), (8, 1, 1))
    """
    return (*shape, 1, 1) if len(shape) == 1 and data_format == "NCHW" else shape


def _finished(
    name: str,
    out: Spec,
    bias: Spec | None,
    weights: Spec | None,
    activation: Activation,
    data_format: DataFormat = "NHWC",
) -> Spec:
    """Return `out` if bias and weights fit it and the activation."""
    if activation not in ACTIVATIONS:
        raise ArgumentValueError(
            f"{name}: activation={activation!r} must be one of {', '.join(map(repr, ACTIVATIONS))}"
        )
    if (activation == "prelu") != (weights is not None):
        raise ArgumentValueError(
            f"{name}: activation={activation!r} and prelu_activation_weights"
            f"{' are missing' if weights is None else ' are given'}; "
            "'prelu' needs them and no other activation does"
        )
    for label, x in (("bias", bias), ("prelu_activation_weights", weights)):
        if x is not None:
            agreed(name, out, x)
            if not stretches(beside_images(x.shape, data_format), out.shape):
                raise ShapeError(
                    f"{name}: {label} has shape {x.shape}, which does not broadcast to the result "
                    f"of shape {out.shape}"
                )
    return out
