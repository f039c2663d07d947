"""Kernels that summarize windows of (batch, depth, height, width, channels) images; padding does not count."""

from plugrad.contract.kernel import agreed, kernel
from plugrad.kernels.pooling import check_gradient, pooled
from plugrad.types.dtype import FLOATING, REAL
from plugrad.types.specs import Shape, Shaped, Spec
from plugrad.types.windows import Padding, Rounding


@kernel("MaxPool3D", accepts=REAL)
def max_pool3d(
    x: Spec, *, filter_size: Shape, strides: Shape, pad: Padding, dim_rounding_mode: Rounding = None
) -> Spec:
    """Return the largest element of each window, or NaN if there is one."""
    return Shaped(pooled(3, x.shape, filter_size, strides, pad, dim_rounding_mode), x.dtype)


@kernel("MaxPool3DGrad", accepts=FLOATING)
def max_pool3d_gradient(
    dy: Spec,
    input: Spec,
    output: Spec,
    *,
    filter_size: Shape,
    strides: Shape,
    pad: Padding,
    dim_rounding_mode: Rounding = None,
) -> Spec:
    """Return the gradient of `max_pool3d`: dy goes to the first largest element of each window, in row-major order."""
    expected = pooled(3, input.shape, filter_size, strides, pad, dim_rounding_mode)
    check_gradient(dy, input, expected)
    check_gradient(output, input, expected)
    return Shaped(input.shape, agreed("MaxPool3DGrad", dy, input, output))


@kernel("AvgPool3D", accepts=FLOATING)
def avg_pool3d(
    x: Spec, *, filter_size: Shape, strides: Shape, pad: Padding, dim_rounding_mode: Rounding = None
) -> Spec:
    """Return the average of each window, over the cells that are not padding."""
    return Shaped(pooled(3, x.shape, filter_size, strides, pad, dim_rounding_mode), x.dtype)


@kernel("AvgPool3DGrad", accepts=FLOATING)
def avg_pool3d_gradient(
    dy: Spec,
    input: Spec,
    *,
    filter_size: Shape,
    strides: Shape,
    pad: Padding,
    dim_rounding_mode: Rounding = None,
) -> Spec:
    """Return the gradient of `avg_pool3d`: dy is shared evenly by the cells of each window that are not padding."""
    check_gradient(dy, input, pooled(3, input.shape, filter_size, strides, pad, dim_rounding_mode))
    return Shaped(input.shape, agreed("AvgPool3DGrad", dy, input))
