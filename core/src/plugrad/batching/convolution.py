"""Batching rules of convolutions, with any number of spatial axes.

Where one operand is shared, the hidden axis becomes a part of the batch, or of the channels, of one call. Where both
are batched, a convolution is a product of matrices: of what the cells of the windows meet, and of the filters.
"""

from typing import Any

from plugrad.contract.kernel import Kernel
from plugrad.kernels import binary, convolution, linalg, movement
from plugrad.registry.batching import (
    Batch,
    merge_example_axis,
    register_batching,
    split_example_axis,
)
from plugrad.tensor.tensor import Tensor
from plugrad.types.shapes import count_elements
from plugrad.types.specs import Shape
from plugrad.types.windows import Window, cell_slices, window_margins


def convolve(batch: Batch, x: Tensor, filter: Tensor, *, window: Window) -> Tensor:
    """Return the convolution of a batch of inputs."""
    kernel = batch.kernel
    if not batch.is_batched[1]:
        return batch.unfold(kernel(batch.fold(x, 0), filter, window=window))
    if not batch.is_batched[0]:
        return split_example_axis(
            kernel(x, merge_example_axis(filter, -1), window=window), batch, -1
        )
    rows = _im2col(x, window)
    weights = movement.reshape(filter, shape=(batch.size, rows.shape[2], filter.shape[-1]))
    y = linalg.matmul(rows, weights)
    return movement.reshape(y, shape=(*x.shape[:2], *window.out, filter.shape[-1]))


def input_gradient(
    batch: Batch, dy: Tensor, filter: Tensor, *, input_shape: Shape, window: Window
) -> Tensor:
    """Return the gradient of a convolution for its images, for a batch of inputs."""
    kernel, n = batch.kernel, batch.size
    images, channels = input_shape[0], input_shape[-1]
    if not batch.is_batched[1]:
        shape = (n * images, *input_shape[1:])
        dx = kernel(batch.fold(dy, 0), filter, input_shape=shape, window=window)
        return movement.reshape(dx, shape=(n, *input_shape))
    if not batch.is_batched[0]:
        shape = (*input_shape[:-1], n * channels)
        dx = kernel(dy, merge_example_axis(filter, -2), input_shape=shape, window=window)
        return split_example_axis(dx, batch, -1)
    columns = dy.shape[-1]
    inner = count_elements(window.size) * channels
    rows = movement.reshape(dy, shape=(n, images * count_elements(window.out), columns))
    weights = movement.reshape(filter, shape=(n, inner, columns))
    d_rows = linalg.matmul(rows, weights, transpose_b=True)
    return movement.reshape(
        _col2im(d_rows, (n * images, *input_shape[1:]), window), shape=(n, *input_shape)
    )


def filter_gradient(
    batch: Batch, x: Tensor, dy: Tensor, *, filter_shape: Shape, window: Window
) -> Tensor:
    """Return the gradient of a convolution for its filters, for a batch of inputs."""
    kernel, n = batch.kernel, batch.size
    *size, channels, columns = filter_shape
    if not batch.is_batched[0]:
        shape = (*size, channels, n * columns)
        found = kernel(x, merge_example_axis(dy, -1), filter_shape=shape, window=window)
        return split_example_axis(found, batch, -1)
    if not batch.is_batched[1]:
        shape = (*size, n * channels, columns)
        found = kernel(merge_example_axis(x, -1), dy, filter_shape=shape, window=window)
        return split_example_axis(found, batch, -2)
    rows = _im2col(x, window)
    d_rows = movement.reshape(dy, shape=(n, rows.shape[1], columns))
    found = linalg.matmul(rows, d_rows, transpose_a=True)
    return movement.reshape(found, shape=(n, *filter_shape))


def _im2col(x: Tensor, window: Window) -> Tensor:
    """Return a matrix for each example with one row for each window: the elements under the window's cells."""
    n, images, *spatial, channels = x.shape
    folded = movement.reshape(x, shape=(n * images, *spatial, channels))
    edges = ((0, 0), *window_margins(tuple(spatial), window), (0, 0))
    if any(map(any, edges)):
        folded = movement.pad(folded, paddings=edges)
    parts = [
        movement.strided_slice(folded, **_cell_slice_attributes(folded.shape, begin, end, window))
        for _, begin, end in cell_slices(window)
    ]
    rows = movement.pack(*parts, axis=folded.ndim - 1)
    return movement.reshape(
        rows, shape=(n, images * count_elements(window.out), len(parts) * channels)
    )


def _col2im(rows: Tensor, image_shape: Shape, window: Window) -> Tensor:
    """Return images to which the elements of each window's row are added back: the transpose of `_im2col`."""
    images, *spatial, channels = image_shape
    cells = cell_slices(window)
    edges = ((0, 0), *window_margins(tuple(spatial), window), (0, 0))
    padded = tuple(
        [before + n + after for n, (before, after) in zip(image_shape, edges, strict=True)]
    )
    each = movement.reshape(rows, shape=(images, *window.out, len(cells), channels))
    parts = [
        movement.strided_slice_gradient(
            part, shape=padded, **_cell_slice_attributes(padded, begin, end, window)
        )
        for part, (_, begin, end) in zip(
            movement.unpack(each, axis=each.ndim - 2), cells, strict=True
        )
    ]
    begin = tuple([before for before, _ in edges])
    return movement.slice(binary.add_n(*parts), begin=begin, size=image_shape)


def _cell_slice_attributes(
    padded_shape: Shape, begin: Shape, end: Shape, window: Window
) -> dict[str, Shape]:
    """Return the attributes of `strided_slice` for the pixels of padded images that one cell of a window covers."""
    return {
        "begin": (0, *begin, 0),
        "end": (padded_shape[0], *end, padded_shape[-1]),
        "strides": (1, *window.strides, 1),
    }


def register_convolution_rules(
    convolution_kernel: Kernel[..., Any],
    input_gradient_kernel: Kernel[..., Any],
    filter_gradient_kernel: Kernel[..., Any],
) -> None:
    """Register the batching rules of a convolution and of its gradients."""
    register_batching(convolution_kernel, convolve)
    register_batching(input_gradient_kernel, input_gradient)
    register_batching(filter_gradient_kernel, filter_gradient)


register_convolution_rules(
    convolution.conv2d, convolution.conv2d_input_gradient, convolution.conv2d_filter_gradient
)
