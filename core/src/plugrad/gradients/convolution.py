"""Gradients of the convolutions: three kernels that are linear in both inputs, each the gradient of the other two."""

# The parameters of lambdas cannot be annotated.
# pyright: reportUnknownMemberType=false

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
    gradient(
        forward,
        x=lambda dy, filter, x_spec, window: input_gradient(
            dy, filter, input_shape=x_spec.shape, window=window
        ),
        filter=lambda dy, x, filter_spec, window: filter_gradient(
            x, dy, filter_shape=filter_spec.shape, window=window
        ),
    )
    gradient(
        input_gradient,
        dy=lambda dy, filter, window: forward(dy, filter, window=window),
        filter=lambda dy, dy_input, filter_spec, window: filter_gradient(
            dy, dy_input, filter_shape=filter_spec.shape, window=window
        ),
    )
    gradient(
        filter_gradient,
        x=lambda dy, dy_input, x_spec, window: input_gradient(
            dy_input, dy, input_shape=x_spec.shape, window=window
        ),
        dy=lambda dy, x, window: forward(x, dy, window=window),
    )


declare_gradients(conv2d, conv2d_input_gradient, conv2d_filter_gradient)
