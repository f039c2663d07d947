"""Kernels that summarize windows of (batch, height, width, channels) images; padding does not count."""

from functools import lru_cache
from typing import Literal

from plugrad.contract.kernel import accepted, agreed, kernel
from plugrad.errors import ShapeError
from plugrad.types.dtype import FLOATING, REAL, int32
from plugrad.types.specs import Shape, Shaped, Spec
from plugrad.types.windows import Padding, Rounding, Window, sliding_window

PoolingType = Literal["max", "avg"]


@lru_cache(maxsize=1024)
def pool_window(
    image: Shape,
    filter_size: Shape,
    strides: Shape,
    pad: Padding,
    rounding: Rounding = None,
    dilations: Shape = (),
) -> Window:
    """Return the positions of the windows of a pooling over images (batch, spatial axes …, channels).

    Every window contains a cell of the image, because a window of padding has no result. A last,
    partial stride that leads beyond the image is dropped, whatever the rounding.

    Raises:
        ShapeError: the window is larger than the padded image, or contains only padding somewhere.
    """
    size = image[1:-1]
    window = sliding_window(size, filter_size, strides, pad, dilations, rounding)
    outs: list[int] = []
    for n, out, (before, _), length, stride, dilation in zip(size, *window, strict=True):
        starts = range(-before, -before + out * stride, stride)
        if rounding in ("ceil", "round") and starts and starts[-1] >= n:
            starts = starts[:-1]
        for start in starts:
            cells = range(start, start + length * dilation, dilation)
            if not any(0 <= cell < n for cell in cells):
                raise ShapeError(
                    f"a window of {filter_size} (dilations {window.dilations}) over an image of {size} lies in "
                    f"the padding with pad={pad!r}; use less padding, or a larger window"
                )
        outs.append(len(starts))
    return window._replace(out=tuple(outs))


def pooled(
    axes: int,
    image: Shape,
    filter_size: Shape,
    strides: Shape,
    pad: Padding,
    rounding: Rounding = None,
    dilations: Shape = (),
) -> Shape:
    """Return the shape of the result of pooling images with `axes` spatial axes.

    Raises:
        ShapeError: images or window have another number of axes, or the window does not fit.
    """
    if not len(image) - 2 == len(filter_size) == axes:
        raise ShapeError(
            f"pooled images have a batch axis, {axes} spatial axes and a channel axis; the shape is "
            f"{image}, and that of the window {filter_size}"
        )
    window = pool_window(image, filter_size, strides, pad, rounding, dilations)
    return image[0], *window.out, image[-1]


def check_gradient(dy: Spec, image: Spec, expected: Shape) -> None:
    """Check that dy has the shape `expected` of the result of pooling images.

    Raises:
        ShapeError: it has another shape.
    """
    if dy.shape != expected:
        raise ShapeError(
            f"a gradient has shape {dy.shape}; pooling images of shape {image.shape} gives {expected}"
        )


@kernel("MaxPool", accepts=REAL)
def max_pool(
    x: Spec, *, filter_size: Shape, strides: Shape, pad: Padding, dim_rounding_mode: Rounding = None
) -> Spec:
    """Return the largest element of each window, or NaN if there is one."""
    return Shaped(pooled(2, x.shape, filter_size, strides, pad, dim_rounding_mode), x.dtype)


@kernel("MaxPoolGrad", accepts=FLOATING)
def max_pool_gradient(
    dy: Spec,
    input: Spec,
    output: Spec,
    *,
    filter_size: Shape,
    strides: Shape,
    pad: Padding,
    dim_rounding_mode: Rounding = None,
) -> Spec:
    """Return the gradient of `max_pool`: dy goes to the first largest element of each window, in row-major order."""
    expected = pooled(2, input.shape, filter_size, strides, pad, dim_rounding_mode)
    check_gradient(dy, input, expected)
    check_gradient(output, input, expected)
    return Shaped(input.shape, agreed("MaxPoolGrad", dy, input, output))


@kernel("AvgPool", accepts=FLOATING)
def avg_pool(
    x: Spec, *, filter_size: Shape, strides: Shape, pad: Padding, dim_rounding_mode: Rounding = None
) -> Spec:
    """Return the average of each window, over the cells that are not padding."""
    return Shaped(pooled(2, x.shape, filter_size, strides, pad, dim_rounding_mode), x.dtype)


@kernel("AvgPoolGrad", accepts=FLOATING)
def avg_pool_gradient(
    dy: Spec,
    input: Spec,
    *,
    filter_size: Shape,
    strides: Shape,
    pad: Padding,
    dim_rounding_mode: Rounding = None,
) -> Spec:
    """Return the gradient of `avg_pool`: dy is shared evenly by the cells of each window that are not padding."""
    check_gradient(dy, input, pooled(2, input.shape, filter_size, strides, pad, dim_rounding_mode))
    return Shaped(input.shape, agreed("AvgPoolGrad", dy, input))


@kernel("MaxPoolWithArgmax", accepts=REAL)
def max_pool_with_argmax(
    x: Spec,
    *,
    filter_size: Shape,
    strides: Shape,
    pad: Padding,
    include_batch_in_index: bool = False,
) -> tuple[Spec, Spec]:
    """Return the result of `max_pool`, and the position of the first largest element of each window.

    A position counts the elements of one image, (row * width + column) * channels + channel, or of
    all images if `include_batch_in_index`. The first element is the first in row-major order.
    """
    shape = pooled(2, x.shape, filter_size, strides, pad)
    return Shaped(shape, x.dtype), Shaped(shape, int32)


@kernel("Pool", accepts=REAL)
def pool(
    input: Spec,
    *,
    window_shape: Shape,
    pooling_type: PoolingType,
    pad: Padding,
    dilations: Shape,
    strides: Shape,
    dim_rounding_mode: Rounding = None,
) -> Spec:
    """Return the largest element or the average of windows of dilated cells, on any number of spatial axes."""
    if pooling_type == "avg":
        accepted("Pool (pooling_type='avg')", input, FLOATING)
    axes = len(window_shape)
    sliding = window_shape, strides, pad, dim_rounding_mode, dilations
    return Shaped(pooled(axes, input.shape, *sliding), input.dtype)
