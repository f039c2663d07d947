"""Movement: views where PyTorch has them. Its slices have no negative strides, so these are reversed first."""

import torch
from torch.nn import functional

from plugrad.extend import Pairs, Scalar, Shape
from plugrad.kernels import movement
from plugrad_torch.declare import Array, implements, update

AxisPositions = tuple[int, ...]

update(
    {
        movement.reshape: lambda x, *, shape: x.reshape(shape),
        movement.expand_dims: lambda input, *, dim: input.unsqueeze(dim),
        movement.transpose: lambda x, *, perm: x.permute(perm),
        movement.broadcast_to: lambda x, *, shape: x.expand(shape),
        movement.concat: lambda *inputs, axis: torch.cat(inputs, axis),
        movement.pack: lambda *inputs, axis: torch.stack(inputs, axis),
        movement.unpack: lambda value, *, axis: list(torch.unbind(value, axis)),
        movement.split: lambda x, *, num_or_size_splits, axis: list(
            torch.split(x, list(num_or_size_splits), axis)
        ),
        movement.tile: lambda x, *, reps: x.repeat(reps),
        movement.reverse: lambda x, *, dims: torch.flip(x, dims),
    }
)


@implements(movement.slice)
def slice_(x: Array, *, begin: Shape, size: Shape, drop: Shape) -> Array:
    """Return a block, without some axes of size 1."""
    key = [
        b if i in drop else slice(b, b + n)
        for i, (b, n) in enumerate(zip(begin, size, strict=True))
    ]
    return x[tuple(key)]


@implements(movement.strided_slice)
def strided_slice(
    x: Array, *, begin: AxisPositions, end: AxisPositions, strides: AxisPositions
) -> Array:
    """Return every n-th element; a range that runs backwards is sliced forwards and reversed."""
    key, backward = _forward_slices(begin, end, strides)
    return torch.flip(x[key], backward) if backward else x[key]


@implements(movement.strided_slice_gradient)
def strided_slice_gradient(
    dy: Array, *, shape: Shape, begin: AxisPositions, end: AxisPositions, strides: AxisPositions
) -> Array:
    """Return zeros with dy at the elements of the slice."""
    return strided_slice_update(
        torch.zeros(shape, dtype=dy.dtype), dy, begin=begin, end=end, strides=strides
    )


@implements(movement.strided_slice_update)
def strided_slice_update(
    tensor: Array,
    updates: Array,
    *,
    begin: AxisPositions,
    end: AxisPositions,
    strides: AxisPositions,
) -> Array:
    """Return a copy with the updates at the elements of the slice."""
    y = tensor.clone()
    key, backward = _forward_slices(begin, end, strides)
    y[key] = torch.flip(updates.expand(y[key].shape), backward) if backward else updates
    return y


def _forward_slices(
    begin: AxisPositions, end: AxisPositions, strides: AxisPositions
) -> tuple[tuple[slice, ...], list[int]]:
    """Return slices that run forwards, and the axes on which the elements come in the other order."""
    ranges = [range(*ends) for ends in zip(begin, end, strides, strict=True)]
    backward = [axis for axis, r in enumerate(ranges) if r.step < 0 and len(r) > 1]
    forward = [r[::-1] if r.step < 0 else r for r in ranges]
    return tuple([slice(r.start, r.stop, r.step) if r else slice(0) for r in forward]), backward


@implements(movement.pad)
def pad(x: Array, *, paddings: Pairs, constant_value: Scalar) -> Array:
    """Return x surrounded by a constant value."""
    if not paddings:
        return x
    widths = [n for pair in reversed(paddings) for n in pair]  # PyTorch begins with the last axis
    if isinstance(constant_value, complex):  # which functional.pad does not take
        y = torch.full(
            [b + n + a for n, (b, a) in zip(x.shape, paddings, strict=True)], constant_value
        )
        y[tuple([slice(b, b + n) for n, (b, _) in zip(x.shape, paddings, strict=True)])] = x
        return y.to(x.dtype)
    return functional.pad(x, widths, value=constant_value)
