"""Gradients of the fused kernels, written with the kernels that they combine.

All of them need the gradient of the input of the activation, the sum z of the product and the bias.
"""

from collections.abc import Callable, Mapping
from typing import Any

from plugrad.contract.kernel import Kernel
from plugrad.gradients.linalg import matmul_left_vjp, matmul_right_vjp
from plugrad.kernels import activation, convolution, depthwise, fused, linalg
from plugrad.ops.binary import greater, where
from plugrad.ops.unary import step
from plugrad.tape.rules import GradientConfig, register_gradient
from plugrad.tensor.tensor import Tensor

Attrs = Mapping[str, Any]
"""The attributes of a call by name."""
FactorVjp = Callable[[Tensor, Tensor, Tensor, Attrs], Tensor]
"""The gradient of a product for one factor, from (dy, first factor, second factor, attributes)."""

# The gradient of z, from dy and the result y of an activation; at a kink, the gradient from the left.
ACTIVATION_VJPS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "linear": lambda dy, y: dy,
    "relu": lambda dy, y: dy * step(y),
    "relu6": activation.relu6_gradient,
    "elu": activation.elu_gradient,
    "sigmoid": activation.sigmoid_gradient,
}
"""By activation: its gradient, from dy and the result."""


def declare_gradients(
    fused_kernel: Kernel[..., Tensor],
    product: Kernel[..., Tensor],
    first_factor_vjp: FactorVjp,
    second_factor_vjp: FactorVjp,
) -> None:
    """Declare the gradients of a fused kernel, given the product in it and its gradients."""
    left, right, bias_name, slope_name = fused_kernel.inputs

    def compute_gradients(
        dy: Tensor, saved: list[Any], attrs: Attrs
    ) -> dict[str, Callable[[], Tensor]]:
        """Return the gradient of each input of the fused kernel by name."""
        a, b, bias, slope, y = saved
        own = {name: attrs[name] for name in product.attributes}
        name, alpha = attrs["activation"], attrs["leakyrelu_alpha"]

        z = y
        if name == "prelu" or (name == "leakyrelu" and alpha < 0):
            # y does not determine the sign of z.
            z = product(a, b, **own)
            z = z if bias is None else z + bias
        if name == "prelu":
            dz = dy * where(greater(z, 0), 1, slope)
        else:
            dz = dy * step(z, alpha) if name == "leakyrelu" else ACTIVATION_VJPS[name](dy, y)
        return {
            left: lambda: first_factor_vjp(dz, a, b, own),
            right: lambda: second_factor_vjp(dz, a, b, own),
            bias_name: lambda: dz,
            slope_name: lambda: where(greater(z, 0), 0, dy * z),
        }

    register_gradient(
        GradientConfig(fused_kernel.name, compute_gradients, fused_kernel.inputs, (True,))
    )


declare_gradients(
    fused.matmul,
    linalg.matmul,
    lambda dy, a, b, attrs: matmul_left_vjp(dy, b, **attrs),
    lambda dy, a, b, attrs: matmul_right_vjp(dy, a, b, **attrs),
)
declare_gradients(
    fused.conv2d,
    convolution.conv2d,
    lambda dy, x, filter, attrs: convolution.conv2d_input_gradient(
        dy, filter, input_shape=x.shape, **attrs
    ),
    lambda dy, x, filter, attrs: convolution.conv2d_filter_gradient(
        x, dy, filter_shape=filter.shape, **attrs
    ),
)
declare_gradients(
    fused.depthwise_conv2d,
    depthwise.depthwise_conv2d,
    lambda dy, x, filter, attrs: depthwise.depthwise_conv2d_input_gradient(
        dy, filter, input_shape=x.shape, **attrs
    ),
    lambda dy, x, filter, attrs: depthwise.depthwise_conv2d_filter_gradient(
        x, dy, filter_shape=filter.shape, **attrs
    ),
)
