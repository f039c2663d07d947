"""Convolutions. Images have their channels last in inputs and outputs; filters have their spatial axes first."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

import plugrad
from plugrad_onnx.elements import as_tensor
from plugrad_onnx.errors import InvalidModel
from plugrad_onnx.operators.common import number_like, to_integers
from plugrad_onnx.registry import operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad import Tensor
    from plugrad_onnx.registry import FilterTensor, HostArray


@dataclass(frozen=True)
class ConvolutionWindow:
    """Size, strides, dilations and padding of a window along each spatial axis."""

    size: tuple[int, ...]
    """The number of cells along each axis."""
    strides: tuple[int, ...]
    """The distances between neighbouring windows along each axis, in pixels."""
    dilations: tuple[int, ...]
    """The distances between neighbouring cells along each axis, in pixels."""
    pads: tuple[tuple[int, int], ...]
    """The padding before and after the images along each axis, in pixels."""

    @property
    def extent(self) -> tuple[int, ...]:
        """The number of pixels that the window spans, dilation included."""
        return tuple((n - 1) * d + 1 for n, d in zip(self.size, self.dilations, strict=True))


def make_window(
    image_size: Sequence[int],
    window_size: Sequence[int],
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    pads: Sequence[int] | None,
    auto_pad: str,
) -> ConvolutionWindow:
    """Return the window for images of a spatial size.

    Raises:
        InvalidModel: attributes are not one number for each spatial axis, or not positive.
    """
    rank = len(image_size)
    steps = tuple(strides or (1,) * rank)
    gaps = tuple(dilations or (1,) * rank)
    sides = tuple(pads or (0,) * 2 * rank)
    if {len(window_size), len(steps), len(gaps), len(sides) // 2} != {rank}:
        raise InvalidModel(
            f"Images have {rank} spatial axes, and the window has size {tuple(window_size)}, strides "
            f"{steps}, dilations {gaps} and pads {sides}."
        )
    if min(*window_size, *steps, *gaps, 1) < 1:
        raise InvalidModel(f"Strides {steps} and dilations {gaps} must be positive.")
    both = tuple(zip(sides[:rank], sides[rank:], strict=True))
    window = ConvolutionWindow(tuple(window_size), steps, gaps, both)
    if auto_pad in ("NOTSET", ""):
        return window
    if auto_pad == "VALID":
        return ConvolutionWindow(window.size, steps, gaps, ((0, 0),) * rank)
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        raise InvalidModel(f"auto_pad {auto_pad!r} is not known.")
    same: list[tuple[int, int]] = []
    for length, step, extent in zip(image_size, steps, window.extent, strict=True):
        missing = max(0, (-(-length // step) - 1) * step + extent - length)
        less, more = missing // 2, missing - missing // 2
        same.append((less, more) if auto_pad == "SAME_UPPER" else (more, less))
    return ConvolutionWindow(window.size, steps, gaps, tuple(same))


@operator("Conv", layout="images")
def conv(
    x: Tensor,
    filters: FilterTensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """Cross-correlate images with filters, in groups of channels."""
    window = make_window(x.shape[1:-1], filters.shape[:-2], strides, dilations, pads, auto_pad)
    if x.shape[-1] != filters.shape[-2] * group or filters.shape[-1] % group:
        raise InvalidModel(
            f"Images have {x.shape[-1]} channels; filters take {filters.shape[-2]} in each of "
            f"{group} groups and give {filters.shape[-1]}."
        )
    result = _convolve(x, filters, window, group)
    return result if bias is None else plugrad.add(result, bias)


@operator("FusedConv", domain="plugrad", layout="images")
def fused_conv(
    x: Tensor,
    filters: FilterTensor,
    bias: Tensor | None = None,
    *,
    activation: Literal["relu", "relu6"],
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """Return a convolution with activation, as one kernel where the backend has one."""
    window = make_window(x.shape[1:-1], filters.shape[:-2], strides, dilations, pads, auto_pad)
    depthwise = group > 1 and filters.shape[-2] == 1 and x.shape[-1] == group
    if len(window.size) == 2 and (group == 1 or depthwise):
        function = plugrad.fused.conv2d
        if depthwise:
            function = plugrad.fused.depthwise_conv2d
            filters = plugrad.reshape(filters, (*window.size, group, filters.shape[-1] // group))
        return function(
            x, filters, window.strides, window.pads, dilations=window.dilations, bias=bias,
            activation=activation,
        )  # fmt: skip
    result = conv(
        x, filters, bias, auto_pad=auto_pad, dilations=dilations, group=group, pads=pads,
        strides=strides,
    )  # fmt: skip
    return plugrad.relu(result) if activation == "relu" else plugrad.relu6(result)


@operator("ConvTranspose", layout="images")
def conv_transpose(
    x: Tensor,
    filters: FilterTensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """Return the transposed convolution: the gradient of a convolution with respect to its input."""
    # ONNX has these filters as (I, O, …), so they come as (…, O, I).
    spatial = x.shape[1:-1]
    rank = _check_rank(len(spatial))
    window = make_window(spatial, filters.shape[:-2], strides, dilations, pads, "NOTSET")
    extra = tuple(output_padding or (0,) * rank)
    cut = _crop_transposed(spatial, window, extra, output_shape, auto_pad)
    kept = [(max(low, 0), max(high, 0)) for low, high in cut]
    result = _TRANSPOSED_CONVOLUTIONS_BY_RANK[rank - 1](
        *(x, filters, None, _unwrap_single(window.strides), kept), **_dilations_argument(window), groups=group,
        output_padding=_unwrap_single(extra),
    )  # fmt: skip
    zeros = [(max(-low, 0), max(-high, 0)) for low, high in cut]
    if any(map(any, zeros)):
        result = plugrad.pad(result, [(0, 0), *zeros, (0, 0)])
    return result if bias is None else plugrad.add(result, bias)


@operator("DeformConv")
def deform_conv(
    x: Tensor,
    filters: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    offset_group: int = 1,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """Cross-correlate images with filters whose sampling positions are shifted by offsets."""
    from plugrad_onnx.operators.image import interpolate_at

    window = make_window(x.shape[2:], filters.shape[2:], strides, dilations, pads, "NOTSET")
    n, channels = x.shape[:2]
    size, out = window.size, offset.shape[2:]
    offsets = plugrad.reshape(offset, (n, offset_group, *size, 2, *out))
    columns: list[Tensor] = []
    for tap in product(*map(range, size)):
        grids = [_cell_positions(window, axis, tap[axis], out, x) for axis in range(2)]
        groups: list[Tensor] = []
        for part in range(offset_group):
            where = [grids[a] + offsets[:, part, tap[0], tap[1], a] for a in range(2)]
            width = channels // offset_group
            taken = interpolate_at(x[:, part * width : (part + 1) * width], where)
            if mask is not None:
                weights = plugrad.reshape(mask, (n, offset_group, *size, *out))
                taken = taken * plugrad.expand_dims(weights[:, part, tap[0], tap[1]], axis=1)
            groups.append(taken)
        columns.append(plugrad.concat(groups, axis=1))
    taps = plugrad.stack(columns, axis=2)
    images = plugrad.split(taps, (channels // group,) * group, 1)
    parts = plugrad.split(filters, (filters.shape[0] // group,) * group, 0)
    results = [
        plugrad.einsum("nckhw,ock->nohw", i, plugrad.reshape(f, (*f.shape[:2], -1)))
        for i, f in zip(images, parts, strict=True)
    ]
    result = plugrad.concat(results, axis=1)
    return result if bias is None else result + plugrad.reshape(bias, (1, -1, 1, 1))


@operator("Col2Im")
def columns_to_image(
    x: Tensor,
    image_shape: HostArray,
    block_shape: HostArray,
    *,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """Return images that sum overlapping blocks given as columns (Col2Im)."""
    image, block = to_integers(image_shape), to_integers(block_shape)
    window = make_window(image, block, strides, dilations, pads, "NOTSET")
    full = [size + a + b for size, (a, b) in zip(image, window.pads, strict=True)]
    count = [
        (size - extent) // step + 1
        for size, extent, step in zip(full, window.extent, window.strides, strict=True)
    ]
    places = np.stack(
        [
            np.arange(int(np.prod(full))).reshape(full)[
                tuple(
                    slice(o * d, o * d + (c - 1) * s + 1, s)
                    for o, d, c, s in zip(tap, window.dilations, count, window.strides, strict=True)
                )
            ]
            for tap in product(*map(range, block))
        ]
    )
    n, channels = x.shape[0], x.shape[1] // int(np.prod(block))
    rows = plugrad.matrix_transpose(plugrad.reshape(x, (n * channels, -1)))
    where = as_tensor(places.reshape(-1, 1).astype(np.int32), x.device)
    summed = plugrad.scatter_nd(where, rows, (int(np.prod(full)), n * channels))
    images = plugrad.reshape(plugrad.matrix_transpose(summed), (n, channels, *full))
    inner = [slice(a, a + size) for size, (a, _) in zip(image, window.pads, strict=True)]
    return images[(slice(None), slice(None), *inner)]


def _convolve(x: Tensor, filters: Tensor, window: ConvolutionWindow, group: int) -> Tensor:
    """Return a grouped convolution with any number of spatial axes that plugrad supports."""
    rank = _check_rank(len(window.size))
    return _CONVOLUTIONS_BY_RANK[rank - 1](
        *(x, filters, _unwrap_single(window.strides), window.pads),
        **_dilations_argument(window),
        groups=group,
    )


_CONVOLUTIONS_BY_RANK: Final = (plugrad.conv1d, plugrad.conv2d, plugrad.conv3d)
"""plugrad's convolutions of one, two and three spatial axes."""
_TRANSPOSED_CONVOLUTIONS_BY_RANK: Final = (
    plugrad.conv1d_transpose,
    plugrad.conv2d_transpose,
    plugrad.conv3d_transpose,
)
"""plugrad's transposed convolutions of one, two and three spatial axes."""


def _check_rank(spatial_rank: int) -> int:
    """Return the number of spatial axes, after a check.

    Raises:
        InvalidModel: plugrad has no convolution with so many.
    """
    if not 1 <= spatial_rank <= 3:
        raise InvalidModel(f"Convolutions have 1 to 3 spatial axes; this one has {spatial_rank}.")
    return spatial_rank


def _unwrap_single(numbers: Sequence[int]) -> Any:
    """Return the numbers as plugrad's convolutions take them: the only one instead of a sequence of one."""
    return numbers[0] if len(numbers) == 1 else tuple(numbers)


def _dilations_argument(window: ConvolutionWindow) -> dict[str, Any]:
    """Return the `dilations` argument of plugrad's convolutions."""
    name = "dilation" if len(window.size) == 1 else "dilations"
    return {name: _unwrap_single(window.dilations)}


def _crop_transposed(
    image_size: Sequence[int],
    window: ConvolutionWindow,
    output_padding: Sequence[int],
    output_shape: Sequence[int] | None,
    auto_pad: str,
) -> Sequence[tuple[int, int]]:
    """Return how much to crop from both sides of a transposed convolution."""
    if output_shape is None and auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        return window.pads
    sizes = output_shape or [n * s for n, s in zip(image_size, window.strides, strict=True)]
    cut: list[tuple[int, int]] = []
    for axis, size in enumerate(sizes[-len(image_size) :]):
        whole = (
            window.strides[axis] * (image_size[axis] - 1)
            + output_padding[axis]
            + window.extent[axis]
        )
        total = whole - size
        less = max(total, 0) // 2
        more = total - less  # negative where zeros must be added
        cut.append((less, more) if auto_pad == "SAME_UPPER" or total < 0 else (more, less))
    return cut


def _cell_positions(
    window: ConvolutionWindow, axis: int, cell_index: int, output_size: Sequence[int], x: Tensor
) -> Any:
    """Return the positions along an axis that a cell of the window reads, before offsets are added."""
    start = cell_index * window.dilations[axis] - window.pads[axis][0]
    places = np.arange(output_size[axis]) * window.strides[axis] + start
    shape = [1, 1, 1]
    shape[axis + 1] = -1
    grid = as_tensor(places.astype(np.float32).reshape(shape), x.device)
    return plugrad.add(grid, number_like(0, grid))
