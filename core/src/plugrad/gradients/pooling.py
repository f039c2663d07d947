"""Gradients of the poolings."""

from math import inf

from plugrad.gradient import gradient
from plugrad.kernels import movement, pooling
from plugrad.ops.binary import equal, where
from plugrad.shapes import Padding, Rounding, Shape, sliding_window
from plugrad.tensor import Tensor


def _at_maximum(
    dy: Tensor,
    input: Tensor,
    output: Tensor,
    filter_size: Shape,
    strides: Shape,
    pad: Padding,
    dim_rounding_mode: Rounding,
) -> Tensor:
    """Return the elements of dy, an image, at the first largest element of each window of `input`.

    The cells of all windows at one position of the filter are a strided slice of the image.
    """
    window = sliding_window(
        (input.shape[1], input.shape[2]), filter_size, strides, pad, (), dim_rounding_mode
    )
    reach = [
        (stops - 1) * stride + length
        for stops, stride, length in zip(window.out, strides, filter_size, strict=True)
    ]
    margins = [
        (before, max(after, n - size - before))
        for (before, after), n, size in zip(window.pad, reach, input.shape[1:3], strict=True)
    ]
    paddings = ((0, 0), *margins, (0, 0))
    image = movement.pad(input, paddings=paddings, constant_value=-inf)
    values = movement.pad(dy, paddings=paddings, constant_value=0)
    batch, height, width, channels = output.shape
    total, is_free = None, equal(output, output)
    for i in range(filter_size[0]):
        for j in range(filter_size[1]):
            cut = {
                "begin": (0, i, j, 0),
                "end": (
                    batch,
                    i + (height - 1) * strides[0] + 1,
                    j + (width - 1) * strides[1] + 1,
                    channels,
                ),
                "strides": (1, *strides, 1),
            }
            is_first = equal(movement.strided_slice(image, **cut), output) & is_free
            chosen = where(is_first, movement.strided_slice(values, **cut), 0)
            total = chosen if total is None else total + chosen
            is_free = is_free & ~is_first
    assert total is not None
    return total


gradient(
    pooling.max_pool, x=lambda dy, x, out, attrs: pooling.max_pool_gradient(dy, x, out, **attrs)
)
gradient(pooling.avg_pool, x=lambda dy, x, attrs: pooling.avg_pool_gradient(dy, x, **attrs))

# Both are linear in dy; the images only tell where it goes, which does not change smoothly.
gradient(pooling.max_pool_gradient, dy=_at_maximum)
gradient(pooling.avg_pool_gradient, dy=lambda dy, attrs: pooling.avg_pool(dy, **attrs))
