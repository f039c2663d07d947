"""Kernels that take the largest sums of the cells of a window and of a filter.

Images are (batch, height, width, channels), filters (height, width, channels). Cells of the padding
do not count; a window that sees no pixel has no largest sum and gives the smallest number.
"""

from plugrad.contract.kernel import accepted, agreed, kernel
from plugrad.errors import ShapeError
from plugrad.types.dtype import REAL
from plugrad.types.specs import Shape, Shaped, Spec
from plugrad.types.windows import Padding, sliding_window


@kernel("Dilation2D", accepts=REAL)
def dilation2d(
    x: Spec, filter: Spec, *, strides: Shape, pad: Padding, dilations: Shape = (1, 1)
) -> Spec:
    """Return the largest sum of each window, NaN if there is one."""
    accepted("Dilation2D", x, REAL)
    return Shaped(
        _dilated("Dilation2D", x, filter, strides, pad, dilations), agreed("Dilation2D", x, filter)
    )


@kernel("Dilation2DBackpropInput", accepts=REAL)
def dilation2d_input_gradient(
    x: Spec, filter: Spec, dy: Spec, *, strides: Shape, pad: Padding, dilations: Shape = (1, 1)
) -> Spec:
    """Return the gradient of `dilation2d` for its images: dy goes to the first largest sum of each window."""
    name = "Dilation2DBackpropInput"
    accepted(name, x, REAL)
    _check_gradient(name, dy, _dilated(name, x, filter, strides, pad, dilations))
    return Shaped(x.shape, agreed(name, x, filter, dy))


@kernel("Dilation2DBackpropFilter", accepts=REAL)
def dilation2d_filter_gradient(
    x: Spec, filter: Spec, dy: Spec, *, strides: Shape, pad: Padding, dilations: Shape = (1, 1)
) -> Spec:
    """Return the gradient of `dilation2d` for its filter: dy goes to the first largest sum of each window."""
    name = "Dilation2DBackpropFilter"
    accepted(name, x, REAL)
    _check_gradient(name, dy, _dilated(name, x, filter, strides, pad, dilations))
    return Shaped(filter.shape, agreed(name, x, filter, dy))


def _dilated(
    name: str, x: Spec, filter: Spec, strides: Shape, pad: Padding, dilations: Shape
) -> Shape:
    if len(x.shape) != 4 or len(filter.shape) != 3 or x.shape[3] != filter.shape[2]:
        raise ShapeError(
            f"{name}: images (batch, height, width, channels) and filters (height, width, channels) "
            f"must have the same channels; the shapes are {x.shape} and {filter.shape}"
        )
    window = sliding_window(x.shape[1:3], filter.shape[:2], strides, pad, dilations)
    return x.shape[0], *window.out, x.shape[3]


def _check_gradient(name: str, dy: Spec, expected: Shape) -> None:
    if dy.shape != expected:
        raise ShapeError(f"{name}: dy has shape {dy.shape}; the dilated images have {expected}")
