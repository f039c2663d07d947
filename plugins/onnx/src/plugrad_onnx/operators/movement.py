"""Shapes, joining, cutting and padding."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import plugrad
from plugrad_onnx.elements import as_tensor
from plugrad_onnx.errors import InvalidModel
from plugrad_onnx.operators.common import integers_from_either, single_element, to_integers
from plugrad_onnx.registry import operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad import Tensor
    from plugrad_onnx.registry import HostArray, TensorOrHostArray


@operator("Reshape")
def reshape(x: TensorOrHostArray, shape: HostArray, *, allowzero: int = 0) -> Any:
    """Reshape x; −1 stands for the remaining size, and 0 copies the old size of the axis."""
    sizes = [
        x.shape[axis] if size == 0 and not allowzero else size
        for axis, size in enumerate(to_integers(shape))
    ]
    if -1 in sizes:
        rest = math.prod(size for size in sizes if size != -1)
        sizes[sizes.index(-1)] = math.prod(x.shape) // rest if rest else 0
    if isinstance(x, np.ndarray):
        return x.reshape(sizes)
    return plugrad.reshape(x, tuple(sizes))


@operator("Flatten")
def flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    """Reshape x to a matrix whose columns are `axis` and all later axes."""
    axis = axis + x.ndim if axis < 0 else axis
    return plugrad.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@operator("Squeeze")
def squeeze_by_attribute(x: Tensor, *, axes: Sequence[int] | None = None) -> Tensor:
    """Remove axes of size 1."""
    chosen = [a for a, size in enumerate(x.shape) if size == 1] if axes is None else axes
    return plugrad.squeeze(x, tuple(chosen)) if chosen else x


@operator("Squeeze", since=13)
def squeeze(x: Tensor, axes: HostArray | None = None) -> Tensor:
    """Remove axes of size 1."""
    return squeeze_by_attribute(x, axes=integers_from_either(None, axes))


@operator("Unsqueeze")
def unsqueeze_by_attribute(x: Tensor, *, axes: Sequence[int]) -> Tensor:
    """Insert axes of size 1."""
    rank = x.ndim + len(axes)
    shape = list(x.shape)
    for axis in sorted(axis % rank for axis in axes):
        shape.insert(axis, 1)
    return plugrad.reshape(x, tuple(shape))


@operator("Unsqueeze", since=13)
def unsqueeze(x: Tensor, axes: HostArray) -> Tensor:
    """Insert axes of size 1."""
    return unsqueeze_by_attribute(x, axes=to_integers(axes))


@operator("Transpose")
def transpose(x: TensorOrHostArray, *, perm: Sequence[int] | None = None) -> Any:
    """Permute the axes; without a permutation, reverse them."""
    order = tuple(range(x.ndim))[::-1] if perm is None else tuple(perm)
    if isinstance(x, np.ndarray):
        return np.transpose(x, order)
    return plugrad.permute_dims(x, order)


@operator("Concat", layout="axis")
def concat(*inputs: Tensor, axis: int = 1) -> Tensor:
    """Concatenate tensors along an axis."""
    return plugrad.concat(list(inputs), axis=axis)


@operator("Split")
def split(
    x: Tensor,
    sizes: HostArray | None = None,
    *,
    axis: int = 0,
    split: Sequence[int] | None = None,
    num_outputs: int | None = None,
    output_count: int,
) -> tuple[Tensor, ...]:
    """Split x along an axis into sizes given by an attribute or an input, or into equal parts (the last smaller)."""
    parts = integers_from_either(split, sizes)
    if parts is None:
        count = num_outputs or output_count
        size = -(-x.shape[axis] // count)
        parts = [size] * (count - 1) + [x.shape[axis] - size * (count - 1)]
    return tuple(plugrad.split(x, tuple(parts), axis))


@operator("Slice")
def slice_by_attributes(
    x: Tensor, *, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int] | None = None
) -> Tensor:
    """Return a slice of x."""
    return _slice_clamped(
        x, list(starts), list(ends), list(axes) if axes is not None else None, None
    )


@operator("Slice", since=10)
def slice_(
    x: Tensor,
    starts: HostArray,
    ends: HostArray,
    axes: HostArray | None = None,
    steps: HostArray | None = None,
) -> Tensor:
    """Return a slice of x with steps."""
    return _slice_clamped(
        x, to_integers(starts), to_integers(ends), integers_from_either(None, axes), integers_from_either(None, steps)
    )  # fmt: skip


@operator("Expand")
def expand(x: Tensor, shape: HostArray) -> Tensor:
    """Broadcast x to a shape; axes of size 1 are repeated."""
    return plugrad.broadcast_to(x, plugrad.broadcast_shapes(x.shape, tuple(to_integers(shape))))


@operator("Tile")
def tile(x: Tensor, repeats: HostArray) -> Tensor:
    """Repeat x along its axes."""
    return plugrad.tile(x, tuple(to_integers(repeats)))


@operator("Pad")
def pad_by_attributes(
    x: Tensor, *, pads: Sequence[int], mode: str = "constant", value: float = 0.0
) -> Tensor:
    """Pad x with a constant or with its own elements."""
    return _pad_or_crop(x, list(pads), list(range(x.ndim)), mode, value)


@operator("Pad", since=11)
def pad(
    x: Tensor,
    pads: HostArray,
    value: HostArray | None = None,
    axes: HostArray | None = None,
    *,
    mode: str = "constant",
) -> Tensor:
    """Pad x with a constant or with its own elements; negative padding crops."""
    chosen = integers_from_either(None, axes) or list(range(x.ndim))
    number = 0 if value is None else single_element(value)
    return _pad_or_crop(x, to_integers(pads), chosen, mode, number)


@operator("CenterCropPad")
def center_crop_pad(x: Tensor, shape: HostArray, *, axes: Sequence[int] | None = None) -> Tensor:
    """Crop or pad x on both sides to a shape."""
    paddings = [[0, 0] for _ in x.shape]
    cut = [slice(None)] * x.ndim
    for axis, size in zip(range(x.ndim) if axes is None else axes, to_integers(shape), strict=True):
        missing = size - x.shape[axis]
        if missing < 0:
            cut[axis] = slice(-missing // 2, -missing // 2 + size)
        paddings[axis] = [max(missing, 0) // 2, max(missing, 0) - max(missing, 0) // 2]
    return plugrad.pad(x[tuple(cut)], paddings)


@operator("DepthToSpace")
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Rearrange channels into blocks of pixels."""
    n, channels, height, width = x.shape
    b, c = blocksize, channels // blocksize**2
    if mode == "DCR":
        blocks = plugrad.reshape(x, (n, b, b, c, height, width))
        blocks = plugrad.permute_dims(blocks, (0, 3, 4, 1, 5, 2))
    else:
        blocks = plugrad.reshape(x, (n, c, b, b, height, width))
        blocks = plugrad.permute_dims(blocks, (0, 1, 4, 2, 5, 3))
    return plugrad.reshape(blocks, (n, c, height * b, width * b))


@operator("SpaceToDepth")
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Rearrange blocks of pixels into channels."""
    n, c, height, width = x.shape
    b = blocksize
    blocks = plugrad.reshape(x, (n, c, height // b, b, width // b, b))
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    blocks = plugrad.permute_dims(blocks, order)
    return plugrad.reshape(blocks, (n, c * b * b, height // b, width // b))


@operator("Trilu")
def trilu(x: Tensor, k: HostArray | None = None, *, upper: int = 1) -> Tensor:
    """Return the upper or lower triangle of matrices (Trilu)."""
    function = plugrad.triu if upper else plugrad.tril
    return function(x, k=0 if k is None else single_element(k))


@operator("ReverseSequence")
def reverse_sequence(
    x: Tensor, sequence_lengths: Tensor, *, batch_axis: int = 1, time_axis: int = 0
) -> Tensor:
    """Reverse the first `sequence_lengths` elements of each sequence."""
    steps = x.shape[time_axis]
    ends = plugrad.reshape(plugrad.astype(sequence_lengths, "int32"), (-1, 1))
    times = plugrad.reshape(plugrad.arange(steps, dtype="int32", device=x.device), (1, -1))
    indices = plugrad.where(plugrad.less(times, ends), ends - 1 - times, times)
    indices = plugrad.matrix_transpose(indices) if time_axis < batch_axis else indices
    indices = plugrad.reshape(indices, indices.shape + (1,) * (x.ndim - 2))
    return plugrad.take_along_axis(x, plugrad.broadcast_to(indices, x.shape), axis=time_axis)


@operator("Dropout")
def legacy_dropout(x: Tensor, *, ratio: float = 0.5, is_test: int = 0, output_count: int) -> Any:
    """Return x unchanged: models run in inference mode."""
    return _with_dropout_mask(x, output_count)


@operator("Dropout", since=12, pure=False)
def dropout(
    x: Tensor,
    ratio: HostArray | None = None,
    training_mode: HostArray | None = None,
    *,
    seed: int | None = None,
    output_count: int,
) -> Any:
    """Drop random elements in training mode; otherwise return x."""
    rate = 0.5 if ratio is None else single_element(ratio)
    if training_mode is None or not single_element(training_mode) or rate == 0:
        return _with_dropout_mask(x, output_count)
    drawn = _make_generator(seed).uniform(x.shape, device=x.device)
    mask = plugrad.greater_equal(drawn, rate)
    kept = plugrad.multiply(x, plugrad.astype(mask, x.dtype)) / (1 - rate)
    return (kept, mask)[:output_count] if output_count > 1 else kept


def _make_generator(seed: int | None) -> Any:
    """Return a new generator for a seed; without a seed, the shared one."""
    return plugrad.random if seed is None else plugrad.random.Generator(seed)


def _with_dropout_mask(x: Tensor, output_count: int) -> Any:
    """Return x, with a mask that keeps all elements if the node has two outputs."""
    return (x, plugrad.ones(x.shape, dtype="bool", device=x.device)) if output_count > 1 else x


def _slice_clamped(
    x: Tensor,
    starts: list[int],
    ends: list[int],
    axes: list[int] | None,
    steps: list[int] | None,
) -> Tensor:
    """Return a slice of x; bounds are clamped as ONNX specifies."""
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    cut = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        size = x.shape[axis]
        if step == 0:
            raise InvalidModel("Slice has a step of 0.")
        first = start + size if start < 0 else start
        last = end + size if end < 0 else end
        if step > 0:
            cut[axis] = slice(min(max(first, 0), size), min(max(last, 0), size), step)
            continue
        first, last = min(max(first, 0), size - 1), min(max(last, -1), size - 1)
        empty = first <= last
        cut[axis] = slice(0, 0) if empty else slice(first, None if last == -1 else last, step)
    return x[tuple(cut)]


def _pad_or_crop(
    x: Tensor, pads: list[int], axes: Sequence[int], mode: str, value: float
) -> Tensor:
    """Pad x; negative padding crops."""
    if len(pads) != 2 * len(axes):
        raise InvalidModel(f"Pad has {len(pads)} paddings for {len(axes)} axes.")
    sides = [[0, 0] for _ in x.shape]
    for place, axis in enumerate(axes):
        sides[axis] = [pads[place], pads[place + len(axes)]]
    if min(pads, default=0) < 0:
        cut = [
            slice(max(-a, 0), size - max(-b, 0))
            for size, (a, b) in zip(x.shape, sides, strict=True)
        ]
        x = x[tuple(cut)]
        sides = [[max(a, 0), max(b, 0)] for a, b in sides]
    if mode == "constant":
        return plugrad.pad(x, sides, value)
    if mode not in ("reflect", "edge", "wrap"):
        raise InvalidModel(
            f"Pad has the mode {mode!r}; constant, reflect, edge and wrap are known."
        )
    for axis, side in enumerate(sides):
        if any(side):
            # NumPy says which element stands where, also where a side is longer than the axis.
            indices = np.pad(np.arange(x.shape[axis], dtype=np.int32), side, mode=mode)  # type: ignore[call-overload]
            x = plugrad.take(x, as_tensor(indices, x.device), axis=axis)
    return x
