"""Shapes, slices, joins, gathering and scattering."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad.graph_models.registry import register_operator
from plugrad.kernels import indexing as contracts
from plugrad.ops import indexing, movement, rearrangement, scatter, subscript, unary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.graph_models.registry import HostArray
    from plugrad.tensor.tensor import Tensor


@register_operator("Reshape")
def reshape(x: Tensor, shape: HostArray) -> Tensor:
    """Return x in another shape, in which -1 is inferred."""
    return movement.reshape(x, _as_int_tuple(shape))


@register_operator("EnsureShape")
def ensure_shape(x: Tensor, shape: HostArray | None = None) -> Tensor:
    """Return x after a check of its shape."""
    return x if shape is None else movement.ensure_shape(x, _as_int_tuple(shape))


@register_operator("ExpandDims")
def expand_dims(x: Tensor, axis: HostArray) -> Tensor:
    """Insert an axis of size 1."""
    return movement.expand_dims(x, axis=int(axis.item()))


@register_operator("Squeeze")
def squeeze(x: Tensor, *, squeeze_dims: Sequence[int] = (), axis: Sequence[int] = ()) -> Tensor:
    """Remove axes of size 1."""
    axes = tuple(squeeze_dims) or tuple(axis)
    return movement.squeeze(x, axes or tuple(n for n, size in enumerate(x.shape) if size == 1))


@register_operator("Transpose")
def transpose(x: Tensor, perm: HostArray) -> Tensor:
    """Permute the axes."""
    return movement.permute_dims(x, _as_int_tuple(perm))


@register_operator("BroadcastTo")
def broadcast_to(x: Tensor, shape: HostArray) -> Tensor:
    """Broadcast x to a shape."""
    return movement.broadcast_to(x, _as_int_tuple(shape))


@register_operator("BroadcastArgs")
def broadcast_args(a: HostArray, b: HostArray) -> Any:
    """Return the common broadcast shape of two shapes."""
    return np.array(np.broadcast_shapes(_as_int_tuple(a), _as_int_tuple(b)), np.int32)


@register_operator("Tile")
def tile(x: Tensor, repetitions: HostArray) -> Tensor:
    """Repeat x along its axes."""
    return movement.tile(x, _as_int_tuple(repetitions))


@register_operator("ConcatV2", last_annotation="HostArray")
def concat(*inputs: Tensor, n: int = 0) -> Tensor:
    """Concatenate `n` tensors (0: all) along an axis, which is the last input."""
    *parts, axis = inputs
    return movement.concat(parts[: n or None], axis=int(axis.item()))


@register_operator("Concat")
def concat_axis_first(axis: HostArray, *parts: Tensor) -> Tensor:
    """Concatenate tensors along an axis, which is the first input."""
    return movement.concat(parts, axis=int(axis.item()))


@register_operator("Pack")
def pack(*parts: Tensor, axis: int = 0) -> Tensor:
    """Stack tensors along a new axis."""
    return movement.stack(parts, axis=axis)


@register_operator("Unpack")
def unpack(x: Tensor, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the slices along an axis."""
    return movement.unstack(x, axis=axis)


@register_operator("Split")
def split(axis: HostArray, x: Tensor, *, num_split: int) -> tuple[Tensor, ...]:
    """Split x into `num_split` equal parts along an axis."""
    return movement.split(x, num_split, int(axis.item()))


@register_operator("SplitV")
def split_by_sizes(x: Tensor, sizes: HostArray, axis: HostArray) -> tuple[Tensor, ...]:
    """Split x into parts of the given sizes; one size of -1 takes the remaining elements."""
    where = int(axis.item())
    wanted = list(_as_int_tuple(sizes))
    if -1 in wanted:
        wanted[wanted.index(-1)] = x.shape[where] - sum(wanted) - 1
    return movement.split(x, wanted, where)


@register_operator("Slice")
def slice_(x: Tensor, begin: HostArray, size: HostArray) -> Tensor:
    """Return a slice; a size of -1 takes all remaining elements."""
    return movement.slice(x, _as_int_tuple(begin), _as_int_tuple(size))


@register_operator("StridedSlice")
def strided_slice(
    x: Tensor, begin: HostArray, end: HostArray, strides: HostArray, *, begin_mask: int = 0, end_mask: int = 0,
    ellipsis_mask: int = 0, new_axis_mask: int = 0, shrink_axis_mask: int = 0,
) -> Tensor:  # fmt: skip
    """Return a slice with steps."""
    bounds = (_as_int_tuple(begin), _as_int_tuple(end), _as_int_tuple(strides))
    masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    return subscript.strided_slice(x, *bounds, *masks)


@register_operator("Reverse")
def reverse_flagged_axes(x: Tensor, dims: HostArray) -> Tensor:
    """Reverse the axes whose flag is set."""
    return movement.flip(x, axis=tuple(int(n) for n in np.flatnonzero(dims)))


@register_operator("ReverseV2")
def reverse(x: Tensor, axis: HostArray) -> Tensor:
    """Reverse axes."""
    return movement.flip(x, axis=_as_int_tuple(axis))


@register_operator("Pad")
def pad(x: Tensor, paddings: HostArray, *, constant_value: float = 0.0) -> Tensor:
    """Pad with a constant."""
    return movement.pad(x, paddings.tolist(), constant_value)


@register_operator("PadV2")
def pad_with_value(x: Tensor, paddings: HostArray, value: HostArray) -> Tensor:
    """Pad with a constant, given as an input."""
    return movement.pad(x, paddings.tolist(), value.item())


@register_operator("MirrorPad")
def mirror_pad(x: Tensor, paddings: HostArray, *, mode: str) -> Tensor:
    """Pad by reflection."""
    kind: Any = mode.lower()
    return rearrangement.mirror_pad(x, paddings.tolist(), kind)


@register_operator("SpaceToBatchND")
def space_to_batch(x: Tensor, block_shape: HostArray, paddings: HostArray) -> Tensor:
    """Move blocks of the spatial axes into the batch."""
    return rearrangement.space_to_batch_nd(x, _as_int_tuple(block_shape), _as_pairs(paddings))


@register_operator("BatchToSpaceND")
def batch_to_space(x: Tensor, block_shape: HostArray, crops: HostArray) -> Tensor:
    """Move blocks of the batch into the spatial axes."""
    return rearrangement.batch_to_space_nd(x, _as_int_tuple(block_shape), _as_pairs(crops))


@register_operator("DepthToSpace")
def depth_to_space(x: Tensor, *, block_size: int, data_format: str = "NHWC") -> Tensor:
    """Move blocks of channels into the spatial axes."""
    order: Any = data_format
    return rearrangement.depth_to_space(x, block_size, order)


@register_operator("GatherV2")
def gather(x: Tensor, indices: Tensor, axis: HostArray, *, batch_dims: int = 0) -> Tensor:
    """Return slices at indices."""
    return indexing.take(
        x, _cast_to_integers(indices), axis=int(axis.item()), batch_dims=batch_dims
    )


@register_operator("Gather")
def gather_rows(x: Tensor, indices: Tensor) -> Tensor:
    """Return rows at indices."""
    return indexing.take(x, _cast_to_integers(indices), axis=0)


@register_operator("GatherNd")
def gather_nd(x: Tensor, indices: Tensor) -> Tensor:
    """Return the elements or slices at index rows."""
    return indexing.gather_nd(x, indices)


@register_operator("Where")
def where_true(condition: Tensor) -> Tensor:
    """Return the coordinates of true elements, one row for each."""
    return contracts.where_true(unary.astype(condition, "bool"))


@register_operator("ScatterNd")
def scatter_nd(indices: Tensor, updates: Tensor, shape: HostArray) -> Tensor:
    """Return zeros with updates added at index rows."""
    return scatter.scatter_nd(indices, updates, _as_int_tuple(shape))


@register_operator("TensorScatterUpdate")
def scatter_update(x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """Return x with elements at index rows replaced by updates."""
    return scatter.tensor_scatter_update(x, indices, updates)


@register_operator("SparseToDense")
def sparse_to_dense(indices: Tensor, shape: HostArray, values: Tensor, default: Tensor) -> Tensor:
    """Return a dense tensor with values at indices and a default elsewhere."""
    default = default if default.dtype == values.dtype else unary.astype(default, values.dtype)
    return scatter.sparse_to_dense(indices, values, _as_int_tuple(shape), default)


def _as_int_tuple(values: HostArray) -> tuple[int, ...]:
    """Return an array of integers as a tuple."""
    return tuple(int(value) for value in values.ravel())


def _as_pairs(values: HostArray) -> Any:
    """Return an array of integers as a list of pairs."""
    return [tuple(int(value) for value in row) for row in values.reshape(-1, 2)]


def _cast_to_integers(indices: Tensor) -> Tensor:
    """Return indices as integers."""
    return indices if indices.dtype.is_integer else unary.astype(indices, "int32")
