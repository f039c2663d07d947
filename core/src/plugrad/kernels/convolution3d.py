"""Kernels that slide a filter over a volume.

Volumes are (batch, depth, height, width, channels), filters (depth, height, width, input channels,
output channels).

Args:
    x: volumes (batch, depth, height, width, input channels).
    filter: filters (depth, height, width, input channels, output channels) of the dtype of the volumes.
    dy: the gradient of the result of the convolution, of the shape and the dtype of that result.
    window: how the filters slide over the volumes; its size is that of the filters.
    input_shape: the shape of the volumes.
    filter_shape: the shape of the filters.
"""

from plugrad.contract.kernel import check_same_dtype, kernel
from plugrad.kernels.convolution import check_gradient_shape, convolution_shape
from plugrad.types.dtype import FLOATING
from plugrad.types.specs import Shape, Shaped, Spec
from plugrad.types.windows import Window


@kernel("Conv3D", accepts=FLOATING)
def conv3d(x: Spec, filter: Spec, *, window: Window) -> Spec:
    """Return the cross-correlation of volumes with filters.

    Returns:
        volumes (batch, *window.out, output channels) in the dtype of x.
    """
    return Shaped(
        convolution_shape(3, x.shape, filter.shape, window), check_same_dtype("Conv3D", x, filter)
    )


@kernel("Conv3DBackpropInputV2", accepts=FLOATING)
def conv3d_input_gradient(dy: Spec, filter: Spec, *, input_shape: Shape, window: Window) -> Spec:
    """Return the gradient of `conv3d` for its volumes, which have `input_shape`: a transposed convolution.

    Returns:
        a tensor of shape `input_shape` in the dtype of dy.
    """
    check_gradient_shape(dy, input_shape, convolution_shape(3, input_shape, filter.shape, window))
    return Shaped(input_shape, check_same_dtype("Conv3DBackpropInputV2", dy, filter))


@kernel("Conv3DBackpropFilterV2", accepts=FLOATING)
def conv3d_filter_gradient(x: Spec, dy: Spec, *, filter_shape: Shape, window: Window) -> Spec:
    """Return the gradient of `conv3d` for its filters, which have `filter_shape`.

    Returns:
        a tensor of shape `filter_shape` in the dtype of x.
    """
    check_gradient_shape(dy, x.shape, convolution_shape(3, x.shape, filter_shape, window))
    return Shaped(filter_shape, check_same_dtype("Conv3DBackpropFilterV2", x, dy))
