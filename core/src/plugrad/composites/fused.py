"""The fused kernels, as the product, the bias and the activation that they combine."""

from collections.abc import Callable
from typing import Any, Final

from plugrad.contract.kernel import Kernel
from plugrad.engine.composites import composite
from plugrad.kernels import activation, convolution, depthwise, fused, linalg
from plugrad.tensor.tensor import Tensor

ACTIVATION_FUNCTIONS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "linear": lambda y: y,
    "relu": activation.relu,
    "relu6": activation.relu6,
    "elu": activation.elu,
    "sigmoid": activation.sigmoid,
}
"""The function of each activation, by the value of the attribute ``activation``."""


def register_fused_composite(
    kernel: Kernel[..., Tensor], product_kernel: Kernel[..., Tensor]
) -> None:
    """Register the composite of a fused kernel, given the kernel of the product inside it."""

    @composite(kernel)
    def body(
        a: Tensor,
        b: Tensor,
        bias: Tensor | None = None,
        prelu_weights: Tensor | None = None,
        **attrs: Any,
    ) -> Tensor:
        y = product_kernel(a, b, **{name: attrs[name] for name in product_kernel.attributes})
        if bias is not None:
            y = y + bias
        name = attrs["activation"]
        if name == "leakyrelu":
            return activation.leaky_relu(y, alpha=attrs["leakyrelu_alpha"])
        if prelu_weights is not None:
            return activation.prelu(y, prelu_weights)
        return ACTIVATION_FUNCTIONS[name](y)


register_fused_composite(fused.matmul, linalg.matmul)
register_fused_composite(fused.conv2d, convolution.conv2d)
register_fused_composite(fused.depthwise_conv2d, depthwise.depthwise_conv2d)
