"""Gradients of the morphology kernels."""

from collections.abc import Iterator
from math import inf

from plugrad.kernels import morphology, movement
from plugrad.ops.binary import add_n, equal, where
from plugrad.tape.rules import gradient
from plugrad.tensor.tensor import Tensor
from plugrad.types.specs import Shape
from plugrad.types.windows import Padding, Window, cell_slices, margins, sliding_window


def _windows(x: Tensor, filter: Tensor, strides: Shape, pad: Padding, dilations: Shape) -> Window:
    return sliding_window(x.shape[1:3], filter.shape[:2], strides, pad, dilations)


def _seen(x: Tensor, window: Window, outside: float) -> Iterator[Tensor]:
    """Yield, for each cell of the filter, the pixels that it meets in all windows."""
    batch, *size, channels = x.shape
    paddings = ((0, 0), *margins(tuple(size), window), (0, 0))
    image = movement.pad(x, paddings=paddings, constant_value=outside)
    for _, begin, end in cell_slices(window):
        yield movement.strided_slice(
            image,
            begin=(0, *begin, 0),
            end=(batch, *end, channels),
            strides=(1, *window.strides, 1),
        )


def _weights(filter: Tensor, window: Window) -> Iterator[Tensor]:
    """Yield the weights of each cell of the filter."""
    for cell, _, _ in cell_slices(window):
        yield movement.slice(filter, begin=(*cell, 0), size=(1, 1, filter.shape[2]))


def _are_largest(
    x: Tensor, filter: Tensor, strides: Shape, pad: Padding, dilations: Shape
) -> Iterator[Tensor]:
    """Yield, for each cell of the filter, whether it is the first with the largest sum in each window."""
    window = _windows(x, filter, strides, pad, dilations)
    largest = morphology.dilation2d(x, filter, strides=strides, pad=pad, dilations=dilations)
    is_free = equal(largest, largest)  # a window whose largest sum is NaN has no such cell
    for pixels, weights in zip(_seen(x, window, -inf), _weights(filter, window), strict=True):
        is_first = equal(pixels + weights, largest) & is_free
        yield is_first
        is_free = is_free & ~is_first


def _pixels_at_largest(
    dy: Tensor, x: Tensor, filter: Tensor, strides: Shape, pad: Padding, dilations: Shape
) -> Tensor:
    """Return the pixels of dy, the gradient of an image, at the first largest sum of each window."""
    are_largest = _are_largest(x, filter, strides, pad, dilations)
    seen = _seen(dy, _windows(x, filter, strides, pad, dilations), 0)
    return add_n([where(is_it, pixels, 0) for is_it, pixels in zip(are_largest, seen, strict=True)])


def _weights_at_largest(
    dy: Tensor, x: Tensor, filter: Tensor, strides: Shape, pad: Padding, dilations: Shape
) -> Tensor:
    """Return the weights of dy, the gradient of a filter, at the first largest sum of each window."""
    are_largest = _are_largest(x, filter, strides, pad, dilations)
    weights = _weights(dy, _windows(x, filter, strides, pad, dilations))
    return add_n([where(is_it, w, 0) for is_it, w in zip(are_largest, weights, strict=True)])


gradient(
    morphology.dilation2d,
    x=lambda dy, x, filter, attrs: morphology.dilation2d_input_gradient(x, filter, dy, **attrs),
    filter=lambda dy, x, filter, attrs: morphology.dilation2d_filter_gradient(
        x, filter, dy, **attrs
    ),
)

# Both are linear in dy, and their gradient is the transpose. Images and filter only determine where
# dy goes, which does not change smoothly.
gradient(morphology.dilation2d_input_gradient, dy=_pixels_at_largest)
gradient(morphology.dilation2d_filter_gradient, dy=_weights_at_largest)
