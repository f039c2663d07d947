"""Kernels that summarize windows of (batch, height, width, channels) images; padding does not count.

The cells of a window lie next to each other, except in `pool`.

Args:
    x: images (batch, height, width, channels).
    dy: the gradient of the result of the pooling, of the shape and the dtype of that result.
    input: the images that were pooled.
    output: the result of pooling them.
    window: how the window slides over the images.
"""

from typing import Literal

from plugrad.contract.kernel import check_dtype, check_same_dtype, kernel
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.kernels.convolution import check_gradient_shape
from plugrad.types.dtype import FLOATING, REAL, position_dtype
from plugrad.types.shapes import count_elements
from plugrad.types.specs import Shape, Shaped, Spec
from plugrad.types.windows import Window, check_window, check_window_positions

PoolingType = Literal["max", "avg"]


def pooling_shape(
    spatial_rank: int, image_shape: Shape, window: Window, *, allows_dilation: bool = False
) -> Shape:
    """Return the shape of the result of pooling images with `spatial_rank` spatial axes.

    Raises:
        ShapeError: the images have another number of axes, or the window is one for other images.
        ArgumentValueError: the cells of the window lie apart and may not.
    """
    check_window(image_shape, window, spatial_rank)
    if not allows_dilation and max(window.dilations) > 1:
        raise ArgumentValueError(
            f"the cells of a window lie next to each other here, unlike with dilations={window.dilations}; use Pool"
        )
    check_window_positions(image_shape[1:-1], window)
    return image_shape[0], *window.out, image_shape[-1]


@kernel("MaxPool", accepts=REAL)
def max_pool(x: Spec, *, window: Window) -> Spec:
    """Return the largest element of each window, or NaN if there is one.

    Returns:
        images (batch, *window.out, channels) in the dtype of x.
    """
    return Shaped(pooling_shape(2, x.shape, window), x.dtype)


@kernel("MaxPoolGrad", accepts=FLOATING)
def max_pool_gradient(dy: Spec, input: Spec, output: Spec, *, window: Window) -> Spec:
    """Return the gradient of `max_pool`: dy goes to the first largest element of each window, in row-major order.

    The images may have one to three spatial axes, and the cells of a window may lie apart, as those of `pool` do.

    Returns:
        a tensor of the shape and the dtype of the input.
    """
    check_gradient_shape(dy, input.shape, _argmax_pool_shape(input.shape, window))
    check_gradient_shape(output, input.shape, dy.shape, "output")
    return Shaped(input.shape, check_same_dtype("MaxPoolGrad", dy, input, output))


@kernel("AvgPool", accepts=FLOATING)
def avg_pool(x: Spec, *, window: Window) -> Spec:
    """Return the average of each window, over the cells that are not padding.

    Returns:
        images (batch, *window.out, channels) in the dtype of x.
    """
    return Shaped(pooling_shape(2, x.shape, window), x.dtype)


@kernel("AvgPoolGrad", accepts=FLOATING)
def avg_pool_gradient(dy: Spec, input: Spec, *, window: Window) -> Spec:
    """Return the gradient of `avg_pool`: dy is shared evenly by the cells of each window that are not padding.

    Returns:
        a tensor of the shape and the dtype of the input.
    """
    check_gradient_shape(dy, input.shape, pooling_shape(2, input.shape, window))
    return Shaped(input.shape, check_same_dtype("AvgPoolGrad", dy, input))


@kernel("MaxPoolWithArgmax", accepts=REAL)
def max_pool_with_argmax(
    x: Spec, *, window: Window, include_batch_in_index: bool = False
) -> tuple[Spec, Spec]:
    """Return the result of `max_pool`, and the position of the first largest element of each window.

    A position counts the elements of one image, (row * width + column) * channels + channel, or of
    all images if `include_batch_in_index`. The first element is the first in row-major order. The images may
    have one to three spatial axes, and the cells of a window may lie apart, as those of `pool` do.

    Args:
        include_batch_in_index: whether a position counts the elements of all images, instead of those of its own; for
            images with one or two spatial axes.

    Returns:
        output: images (batch, *window.out, channels) in the dtype of x.
        positions: positions of that shape: int32, or int64 among more than 2**31 elements.
    """
    shape = _argmax_pool_shape(x.shape, window)
    if include_batch_in_index and len(window.size) > 2:
        raise ArgumentValueError(
            f"MaxPoolWithArgmax: images with {len(window.size)} spatial axes have positions of their own; omit "
            "include_batch_in_index"
        )
    elements = count_elements(x.shape if include_batch_in_index else x.shape[1:])
    return Shaped(shape, x.dtype), Shaped(shape, position_dtype(elements))


@kernel("Pool", accepts=REAL)
def pool(input: Spec, *, window: Window, pooling_type: PoolingType) -> Spec:
    """Return the largest element or the average of windows of dilated cells, on any number of spatial axes.

    Args:
        input: images (batch, *spatial, channels); for "avg", floating.
        pooling_type: what summarizes a window: "max", its largest element, or NaN if there is one; or "avg".

    Returns:
        images (batch, *window.out, channels) in the dtype of the input.
    """
    if pooling_type == "avg":
        check_dtype("Pool (pooling_type='avg')", input, FLOATING)
    return Shaped(
        pooling_shape(len(window.size), input.shape, window, allows_dilation=True), input.dtype
    )


def _argmax_pool_shape(image_shape: Shape, window: Window) -> Shape:
    """Return the result shape of a maximum pooling that also returns, or needs, the positions of the maxima.

    Raises:
        ShapeError: the images have no, or more than three, spatial axes, or the window is one for other images.
    """
    if not 3 <= len(image_shape) <= 5:
        raise ShapeError(
            f"images have shape (batch, one to three spatial axes, channels), not {image_shape}"
        )
    return pooling_shape(len(image_shape) - 2, image_shape, window, allows_dilation=True)
