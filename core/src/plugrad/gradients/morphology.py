"""Gradients of the morphology kernels."""

from collections.abc import Iterator
from math import inf

from plugrad.kernels import morphology, movement
from plugrad.ops.binary import add_n, equal, where
from plugrad.tape.rules import gradient
from plugrad.tensor.tensor import Tensor
from plugrad.types.windows import Window, cell_slices, window_margins


def _iter_window_pixels(x: Tensor, window: Window, padding_value: float) -> Iterator[Tensor]:
    """Yield, for each cell of the filter, the pixel under it in every window."""
    batch, *size, channels = x.shape
    paddings = ((0, 0), *window_margins(tuple(size), window), (0, 0))
    image = movement.pad(x, paddings=paddings, constant_value=padding_value)
    for _, begin, end in cell_slices(window):
        yield movement.strided_slice(
            image,
            begin=(0, *begin, 0),
            end=(batch, *end, channels),
            strides=(1, *window.strides, 1),
        )


def _iter_weights(filter: Tensor, window: Window) -> Iterator[Tensor]:
    """Yield the weights of each cell of the filter."""
    for cell, _, _ in cell_slices(window):
        yield movement.slice(filter, begin=(*cell, 0), size=(1, 1, filter.shape[2]))


def _iter_is_argmax(x: Tensor, filter: Tensor, window: Window) -> Iterator[Tensor]:
    """Yield, for each cell of the filter, whether it is the first with the largest sum in each window."""
    largest = morphology.dilation2d(x, filter, window=window)
    is_free = equal(largest, largest)  # a window whose largest sum is NaN has no such cell
    for pixels, weights in zip(
        _iter_window_pixels(x, window, -inf), _iter_weights(filter, window), strict=True
    ):
        is_first = equal(pixels + weights, largest) & is_free
        yield is_first
        is_free = is_free & ~is_first


def _select_at_largest(
    x: Tensor, filter: Tensor, window: Window, cell_parts: Iterator[Tensor]
) -> Tensor:
    """Return for each window the element of `cell_parts` for the filter's cell with the window's first maximum."""
    pairs = zip(_iter_is_argmax(x, filter, window), cell_parts, strict=True)
    return add_n([where(is_it, part, 0) for is_it, part in pairs])


gradient(
    morphology.dilation2d,
    x=lambda dy, x, filter, attrs: morphology.dilation2d_input_gradient(x, filter, dy, **attrs),
    filter=lambda dy, x, filter, attrs: morphology.dilation2d_filter_gradient(
        x, filter, dy, **attrs
    ),
)

# Both are linear in dy, and their gradient is the transpose. Images and filter only determine where
# dy goes, which does not change smoothly.
gradient(
    morphology.dilation2d_input_gradient,
    dy=lambda dy, x, filter, window: _select_at_largest(
        x, filter, window, _iter_window_pixels(dy, window, 0)
    ),
)
gradient(
    morphology.dilation2d_filter_gradient,
    dy=lambda dy, x, filter, window: _select_at_largest(
        x, filter, window, _iter_weights(dy, window)
    ),
)
