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
    """Return where the windows of a pooling stop over images (batch, spatial axes …, channels).

    Every window sees a cell of the image: what would a window of padding amount to? A last, partial
    stride that leads beyond the image is dropped, whatever the rounding.

    Raises:
        ShapeError: the window is larger than the padded image, or sees only padding somewhere.
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
    """Return the shape of what a pooling of images with so many spatial axes gives."""
    if not len(image) - 2 == len(filter_size) == axes:
        raise ShapeError(
            f"pooled images have a batch axis, {axes} spatial axes and a channel axis; the shape is "
            f"{image}, and that of the window {filter_size}"
        )
    window = pool_window(image, filter_size, strides, pad, rounding, dilations)
    return image[0], *window.out, image[-1]


def check_gradient_fits(name: str, dy: Spec, image: Spec, expected: Shape) -> None:
    """Raise unless dy has the shape of what a pooling of images gives."""
    if dy.shape != expected:
        raise ShapeError(
            f"{name}: a gradient of shape {dy.shape} does not belong to images of shape "
            f"{image.shape}, whose pooled shape is {expected}"
        )


@kernel("MaxPool", accepts=REAL)
def max_pool(
    x: Spec, *, filter_size: Shape, strides: Shape, pad: Padding, dim_rounding_mode: Rounding = None
) -> Spec:
    """Return the largest element of each window, NaN if there is one."""
    shape = pooled(2, x.shape, filter_size, strides, pad, dim_rounding_mode)
    return Shaped(shape, accepted("MaxPool", x, REAL))


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
    """Return the gradient of `max_pool`: dy goes to the first largest element of each window, row by row."""
    expected = pooled(2, input.shape, filter_size, strides, pad, dim_rounding_mode)
    check_gradient_fits("MaxPoolGrad", dy, input, expected)
    check_gradient_fits("MaxPoolGrad", output, input, expected)
    return Shaped(input.shape, agreed("MaxPoolGrad", dy, input, output))


@kernel("AvgPool", accepts=FLOATING)
def avg_pool(
    x: Spec, *, filter_size: Shape, strides: Shape, pad: Padding, dim_rounding_mode: Rounding = None
) -> Spec:
    """Return the average of each window, over the cells that are not padding."""
    shape = pooled(2, x.shape, filter_size, strides, pad, dim_rounding_mode)
    return Shaped(shape, accepted("AvgPool", x, FLOATING))


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
    """Return the gradient of `avg_pool`: dy is spread evenly over the cells of each window."""
    expected = pooled(2, input.shape, filter_size, strides, pad, dim_rounding_mode)
    check_gradient_fits("AvgPoolGrad", dy, input, expected)
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
    """Return what `max_pool` does, and the position of each first largest element, row by row.

    A position counts the elements of one image, (row * width + column) * channels + channel, or of
    all images if `include_batch_in_index`.
    """
    shape = pooled(2, x.shape, filter_size, strides, pad)
    return Shaped(shape, accepted("MaxPoolWithArgmax", x, REAL)), Shaped(shape, int32)


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
    shape = pooled(
        len(window_shape), input.shape, window_shape, strides, pad, dim_rounding_mode, dilations
    )
    return Shaped(shape, accepted("Pool", input, REAL if pooling_type == "max" else FLOATING))
