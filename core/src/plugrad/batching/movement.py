"""Batching rules of kernels that move elements: their axes are one further back."""

from plugrad.kernels import movement
from plugrad.registry.batching import Batch, insert_axes_to_rank, register_batching, shift_axes_rule
from plugrad.registry.unchecked import reshape_unchecked
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import Scalar
from plugrad.types.specs import Shape
from plugrad.types.windows import Pairs


def _reshape(batch: Batch, x: Tensor, *, shape: Shape) -> Tensor:
    return reshape_unchecked(x, (batch.size, *shape))


def _transpose(batch: Batch, x: Tensor, *, perm: Shape) -> Tensor:
    return movement.transpose(x, perm=(0, *[axis + 1 for axis in perm]))


def _broadcast_to(batch: Batch, x: Tensor, *, shape: Shape) -> Tensor:
    return movement.broadcast_to(insert_axes_to_rank(x, len(shape) + 1), shape=(batch.size, *shape))


def _slice(batch: Batch, x: Tensor, *, begin: Shape, size: Shape, drop: Shape) -> Tensor:
    dropped = tuple([axis + 1 for axis in drop])
    return movement.slice(x, begin=(0, *begin), size=(batch.size, *size), drop=dropped)


def _strided_slice(batch: Batch, x: Tensor, *, begin: Shape, end: Shape, strides: Shape) -> Tensor:
    return movement.strided_slice(
        x, begin=(0, *begin), end=(batch.size, *end), strides=(1, *strides)
    )


def _strided_slice_gradient(
    batch: Batch, dy: Tensor, *, shape: Shape, begin: Shape, end: Shape, strides: Shape
) -> Tensor:
    return movement.strided_slice_gradient(
        dy,
        shape=(batch.size, *shape),
        begin=(0, *begin),
        end=(batch.size, *end),
        strides=(1, *strides),
    )


def _strided_slice_update(
    batch: Batch, tensor: Tensor, updates: Tensor, *, begin: Shape, end: Shape, strides: Shape
) -> Tensor:
    tensor = batch.with_batch_axis(tensor, 0)
    return movement.strided_slice_update(
        tensor,
        insert_axes_to_rank(updates, tensor.ndim) if batch.is_batched[1] else updates,
        begin=(0, *begin),
        end=(batch.size, *end),
        strides=(1, *strides),
    )


def _pad(batch: Batch, x: Tensor, *, paddings: Pairs, constant_value: Scalar | str) -> Tensor:
    return movement.pad(x, paddings=((0, 0), *paddings), constant_value=constant_value)


def _tile(batch: Batch, x: Tensor, *, reps: Shape) -> Tensor:
    return movement.tile(x, reps=(1, *reps))


register_batching(movement.reshape, _reshape)
register_batching(movement.expand_dims, shift_axes_rule("dim"))
register_batching(movement.transpose, _transpose)
register_batching(movement.broadcast_to, _broadcast_to)
register_batching(movement.slice, _slice)
register_batching(movement.strided_slice, _strided_slice)
register_batching(movement.strided_slice_gradient, _strided_slice_gradient)
register_batching(movement.strided_slice_update, _strided_slice_update)
register_batching(movement.concat, shift_axes_rule("axis"))
register_batching(movement.pack, shift_axes_rule("axis"))
register_batching(movement.unpack, shift_axes_rule("axis"))
register_batching(movement.split, shift_axes_rule("axis"))
register_batching(movement.pad, _pad)
register_batching(movement.tile, _tile)
register_batching(movement.reverse, shift_axes_rule("dims"))
