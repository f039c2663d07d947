"""Kernels that summarize windows of (batch, height, width, channels) images; padding does not count."""

from plugrad.dtype import FLOATING, REAL
from plugrad.errors import ShapeError
from plugrad.kernel import Shaped, Spec, accepted, kernel
from plugrad.shapes import Padding, Rounding, Shape, sliding_window


@kernel("MaxPool", accepts=REAL)
def max_pool(
    x: Spec, *, filter_size: Shape, strides: Shape, pad: Padding, dim_rounding_mode: Rounding = None
) -> Spec:
    """Return the largest element of each window, NaN if there is one."""
    return Shaped(
        _pooled(x.shape, filter_size, strides, pad, dim_rounding_mode), accepted("MaxPool", x, REAL)
    )


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
    _check(
        "MaxPoolGrad", dy, _pooled(input.shape, filter_size, strides, pad, dim_rounding_mode), input
    )
    _check("MaxPoolGrad", output, dy.shape, input)
    return Shaped(input.shape, dy.dtype)


@kernel("AvgPool", accepts=FLOATING)
def avg_pool(
    x: Spec, *, filter_size: Shape, strides: Shape, pad: Padding, dim_rounding_mode: Rounding = None
) -> Spec:
    """Return the average of each window, over the cells that are not padding."""
    return Shaped(
        _pooled(x.shape, filter_size, strides, pad, dim_rounding_mode),
        accepted("AvgPool", x, FLOATING),
    )


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
    _check(
        "AvgPoolGrad", dy, _pooled(input.shape, filter_size, strides, pad, dim_rounding_mode), input
    )
    return Shaped(input.shape, dy.dtype)


def _pooled(
    image: Shape, filter_size: Shape, strides: Shape, pad: Padding, rounding: Rounding
) -> Shape:
    if len(image) != 4:
        raise ShapeError(f"a pooled image has shape (batch, height, width, channels), not {image}")
    window = sliding_window((image[1], image[2]), filter_size, strides, pad, (), rounding)
    return image[0], *window.out, image[3]


def _check(name: str, x: Spec, expected: Shape, image: Spec) -> None:
    if x.shape != expected:
        raise ShapeError(
            f"{name}: a gradient of shape {x.shape} does not belong to images of shape "
            f"{image.shape}, whose pooled shape is {expected}"
        )
