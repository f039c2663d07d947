"""Gradients of the convolutions: three kernels that are linear in both inputs, each the gradient of the other two."""

# The parameters of lambdas cannot be annotated.
# pyright: reportUnknownMemberType=false

from collections.abc import Mapping
from typing import Any

from plugrad.contract.kernel import Kernel
from plugrad.kernels.convolution import conv2d, conv2d_filter_gradient, conv2d_input_gradient
from plugrad.tape.rules import gradient
from plugrad.tensor.tensor import Tensor


def declare_gradients(
    forward: Kernel[..., Tensor],
    input_gradient: Kernel[..., Tensor],
    filter_gradient: Kernel[..., Tensor],
) -> None:
    """Declare the gradients of a convolution and of its gradients."""

    def sliding(attrs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes that the three kernels share; they say how filters slide."""
        return {name: attrs[name] for name in forward.attributes}

    gradient(
        forward,
        x=lambda dy, filter, x_spec, attrs: input_gradient(
            dy, filter, input_shape=x_spec.shape, **attrs
        ),
        filter=lambda dy, x, filter_spec, attrs: filter_gradient(
            x, dy, filter_shape=filter_spec.shape, **attrs
        ),
    )
    gradient(
        input_gradient,
        dy=lambda dy, filter, attrs: forward(dy, filter, **sliding(attrs)),
        filter=lambda dy, dy_input, filter_spec, attrs: filter_gradient(
            dy, dy_input, filter_shape=filter_spec.shape, **sliding(attrs)
        ),
    )
    gradient(
        filter_gradient,
        x=lambda dy, dy_input, x_spec, attrs: input_gradient(
            dy_input, dy, input_shape=x_spec.shape, **sliding(attrs)
        ),
        dy=lambda dy, x, attrs: forward(x, dy, **sliding(attrs)),
    )


declare_gradients(conv2d, conv2d_input_gradient, conv2d_filter_gradient)
