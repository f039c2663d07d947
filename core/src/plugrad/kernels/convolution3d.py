"""Kernels that slide a filter over a volume.

Volumes are (batch, depth, height, width, channels), or (batch, channels, depth, height, width) if
`data_format` is "NCDHW"; filters are (depth, height, width, input channels, output channels).
"""

from plugrad.contract.kernel import agreed, kernel
from plugrad.kernels.convolution import check_gradient, convolved
from plugrad.types.dtype import FLOATING
from plugrad.types.specs import Shape, Shaped, Spec
from plugrad.types.windows import Padding, Rounding, VolumeFormat


@kernel("Conv3D", accepts=FLOATING)
def conv3d(
    x: Spec,
    filter: Spec,
    *,
    strides: Shape,
    pad: Padding,
    data_format: VolumeFormat = "NDHWC",
    dilations: Shape = (1, 1, 1),
    dim_rounding_mode: Rounding = None,
) -> Spec:
    """Return the cross-correlation of volumes with filters."""
    sliding = strides, pad, data_format, dilations, dim_rounding_mode
    return Shaped(convolved(x.shape, filter.shape, *sliding), agreed("Conv3D", x, filter))


@kernel("Conv3DBackpropInputV2", accepts=FLOATING)
def conv3d_input_gradient(
    dy: Spec,
    filter: Spec,
    *,
    input_shape: Shape,
    strides: Shape,
    pad: Padding,
    data_format: VolumeFormat = "NDHWC",
    dilations: Shape = (1, 1, 1),
    dim_rounding_mode: Rounding = None,
) -> Spec:
    """Return the gradient of `conv3d` for its volumes, which have `input_shape`: a transposed convolution."""
    sliding = strides, pad, data_format, dilations, dim_rounding_mode
    check_gradient(dy, input_shape, filter.shape, *sliding)
    return Shaped(input_shape, agreed("Conv3DBackpropInputV2", dy, filter))


@kernel("Conv3DBackpropFilterV2", accepts=FLOATING)
def conv3d_filter_gradient(
    x: Spec,
    dy: Spec,
    *,
    filter_shape: Shape,
    strides: Shape,
    pad: Padding,
    data_format: VolumeFormat = "NDHWC",
    dilations: Shape = (1, 1, 1),
    dim_rounding_mode: Rounding = None,
) -> Spec:
    """Return the gradient of `conv3d` for its filters, which have `filter_shape`."""
    sliding = strides, pad, data_format, dilations, dim_rounding_mode
    check_gradient(dy, x.shape, filter_shape, *sliding)
    return Shaped(filter_shape, agreed("Conv3DBackpropFilterV2", x, dy))
