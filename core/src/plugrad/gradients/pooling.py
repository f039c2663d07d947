"""Gradients of the pooling kernels, for images with any number of spatial axes.

For each cell of the filter, the elements that it meets in all windows are a strided slice of the
images with their margins. Gradients for which there is no kernel are computed from these slices.
"""

from math import inf
from typing import Any, Final, NamedTuple

from plugrad.kernels import creation, movement, pooling
from plugrad.kernels.pooling import PoolingType
from plugrad.ops.binary import add_n, equal, where
from plugrad.tape.rules import gradient
from plugrad.tensor.tensor import Tensor
from plugrad.types.specs import Shape, Spec
from plugrad.types.windows import Pairs, Window, cell_slices, window_margins

MAX_POOL_GRADIENT_MAX_RANK: Final = 5
"""The most axes of images for which a backend's kernel finds the largest elements; for more, ops do."""


class _WindowCells(NamedTuple):
    """The padding of images, and for each cell of the window, the slice of the padded images that it covers."""

    paddings: Pairs
    slices: tuple[dict[str, Any], ...]
    """By cell, the begin and the size of the slice."""

    def gather_cells(self, images: Tensor, padding_value: float = 0) -> list[Tensor]:
        """Return, for each cell, the elements under it in all windows; the padding holds `padding_value`."""
        padded = movement.pad(images, paddings=self.paddings, constant_value=padding_value)
        return [movement.strided_slice(padded, **place) for place in self.slices]

    def scatter_cells(self, parts: list[Tensor], images: Spec) -> Tensor:
        """Add each cell's part back to the images: the transpose of `gather_cells`."""
        shape = movement.pad.infer(images, paddings=self.paddings).shape
        placed = [
            movement.strided_slice_gradient(part, shape=shape, **place)
            for part, place in zip(parts, self.slices, strict=True)
        ]
        begin = tuple(before for before, _ in self.paddings)
        return movement.slice(add_n(placed), begin=begin, size=images.shape)


def _window_cells(image: Shape, window: Window) -> _WindowCells:
    """Return the padding and the slices for a window over images of a shape."""
    batch, *size, channels = image
    return _WindowCells(
        ((0, 0), *window_margins(tuple(size), window), (0, 0)),
        tuple(
            {
                "begin": (0, *begin, 0),
                "end": (batch, *end, channels),
                "strides": (1, *window.strides, 1),
            }
            for _, begin, end in cell_slices(window)
        ),
    )


def _is_first_maximum(cells: list[Tensor], largest: Tensor) -> list[Tensor]:
    """Return, for each cell of the window, the windows in which it is the first with the largest element."""
    found: list[Tensor] = []
    is_free = equal(largest, largest)  # a window whose largest element is NaN has no such cell
    for cell in cells:
        is_first = equal(cell, largest) & is_free
        is_free = is_free & ~is_first
        found.append(is_first)
    return found


def select_at_maximum(dy: Tensor, input: Tensor, output: Tensor, window: Window) -> Tensor:
    """Select from dy, a gradient of the images, the element at the first maximum of each window of `input`."""
    places = _window_cells(input.shape, window)
    firsts = _is_first_maximum(places.gather_cells(input, -inf), output)
    parts = zip(firsts, places.gather_cells(dy), strict=True)
    return add_n([where(is_first, part, 0) for is_first, part in parts])


def _pool_gradient(
    dy: Tensor, input: Tensor, out: Tensor, window: Window, pooling_type: PoolingType
) -> Tensor:
    """Gradient of pooling: dy goes to each window's first maximum, or evenly to its cells in the image."""
    if pooling_type == "max" and input.ndim <= MAX_POOL_GRADIENT_MAX_RANK:
        return pooling.max_pool_gradient(dy, input, out, window=window)
    places = _window_cells(input.shape, window)
    if pooling_type == "max":
        parts = [
            where(is_first, dy, 0)
            for is_first in _is_first_maximum(places.gather_cells(input, -inf), out)
        ]
    else:
        counts = add_n(places.gather_cells(creation.ones_like(input)))
        parts = [dy / counts] * len(places.slices)
    return places.scatter_cells(parts, input)


gradient(
    pooling.max_pool, x=lambda dy, x, out, attrs: pooling.max_pool_gradient(dy, x, out, **attrs)
)
gradient(pooling.avg_pool, x=lambda dy, x, attrs: pooling.avg_pool_gradient(dy, x, **attrs))
gradient(pooling.pool, input=_pool_gradient)
gradient(
    pooling.max_pool_with_argmax,
    x=lambda dy, x, outs, window: pooling.max_pool_gradient(dy[0], x, outs[0], window=window),
)

# Both are linear in dy, and their gradient is the transpose. The images only determine where dy goes,
# which does not change smoothly.
gradient(pooling.max_pool_gradient, dy=select_at_maximum)
gradient(pooling.avg_pool_gradient, dy=lambda dy, attrs: pooling.avg_pool(dy, **attrs))
