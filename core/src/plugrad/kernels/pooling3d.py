"""Kernels that summarize windows of (batch, depth, height, width, channels) images; padding does not count.

Args:
    x: images (batch, depth, height, width, channels).
    dy: the gradient of the result of the pooling, of the shape and the dtype of that result.
    input: the images that were pooled.
    output: the result of pooling them.
    window: how the window slides over the images.
"""

from plugrad.contract.kernel import check_same_dtype, kernel
from plugrad.kernels.convolution import check_gradient_shape
from plugrad.kernels.pooling import pooling_shape
from plugrad.types.dtype import FLOATING, REAL
from plugrad.types.specs import Shaped, Spec
from plugrad.types.windows import Window


@kernel("MaxPool3D", accepts=REAL)
def max_pool3d(x: Spec, *, window: Window) -> Spec:
    """Return the largest element of each window, or NaN if there is one.

    Returns:
        images (batch, *window.out, channels) in the dtype of x.
    """
    return Shaped(pooling_shape(3, x.shape, window), x.dtype)


@kernel("MaxPool3DGrad", accepts=FLOATING)
def max_pool3d_gradient(dy: Spec, input: Spec, output: Spec, *, window: Window) -> Spec:
    """Return the gradient of `max_pool3d`: dy goes to the first largest element of each window, in row-major order.

    Returns:
        a tensor of the shape and the dtype of the input.
    """
    check_gradient_shape(dy, input.shape, pooling_shape(3, input.shape, window))
    check_gradient_shape(output, input.shape, dy.shape, "output")
    return Shaped(input.shape, check_same_dtype("MaxPool3DGrad", dy, input, output))


@kernel("AvgPool3D", accepts=FLOATING)
def avg_pool3d(x: Spec, *, window: Window) -> Spec:
    """Return the average of each window, over the cells that are not padding.

    Returns:
        images (batch, *window.out, channels) in the dtype of x.
    """
    return Shaped(pooling_shape(3, x.shape, window), x.dtype)


@kernel("AvgPool3DGrad", accepts=FLOATING)
def avg_pool3d_gradient(dy: Spec, input: Spec, *, window: Window) -> Spec:
    """Return the gradient of `avg_pool3d`: dy is shared evenly by the cells of each window that are not padding.

    Returns:
        a tensor of the shape and the dtype of the input.
    """
    check_gradient_shape(dy, input.shape, pooling_shape(3, input.shape, window))
    return Shaped(input.shape, check_same_dtype("AvgPool3DGrad", dy, input))
