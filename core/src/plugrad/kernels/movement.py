"""Kernels that move elements without computing. Axes, begins and sizes arrive complete and counted from the front."""

from plugrad.contract.annotations import Axes, Axis, NewAxis
from plugrad.contract.kernel import check_same_dtype, kernel
from plugrad.errors import ArgumentValueError, AxisError, DTypeError, ShapeError
from plugrad.types.dtype import Scalar, can_hold, string
from plugrad.types.shapes import (
    as_shape,
    broadcast,
    count_elements,
    reduced_shape,
    resolve_shape,
    sliced_shape,
)
from plugrad.types.specs import Shape, Shaped, Spec
from plugrad.types.windows import Pairs


@kernel("Reshape")
def reshape(x: Spec, *, shape: Shape) -> Spec:
    """Return the elements in another shape."""
    return Shaped(resolve_shape(as_shape(shape), count_elements(x.shape)), x.dtype)


@kernel("ExpandDims")
def expand_dims(input: Spec, *, dim: NewAxis) -> Spec:
    """Return the tensor with an axis of size 1 inserted at position `dim`."""
    return Shaped((*input.shape[:dim], 1, *input.shape[dim:]), input.dtype)


@kernel("Transpose")
def transpose(x: Spec, *, perm: Shape) -> Spec:
    """Return the tensor with its axes reordered: axis i of the result is axis ``perm[i]`` of x."""
    if sorted(perm) != list(range(len(x.shape))):
        raise AxisError(
            f"perm={perm} must name each of the {len(x.shape)} axes of shape {x.shape} once"
        )
    return Shaped(tuple(x.shape[p] for p in perm), x.dtype)


@kernel("BroadcastTo")
def broadcast_to(x: Spec, *, shape: Shape) -> Spec:
    """Return the tensor repeated along missing axes and along axes of size 1."""
    if broadcast(x.shape, shape) != shape:
        raise ShapeError(
            f"shape {x.shape} does not broadcast to {shape}, which must have at least as many axes, and "
            "other sizes only where x has size 1"
        )
    return Shaped(shape, x.dtype)


@kernel("Slice")
def slice(x: Spec, *, begin: Shape, size: Shape, drop: Axes = ()) -> Spec:
    """Return the block of `size` that starts at `begin`, without the axes `drop`, along which it has size 1."""
    if not len(begin) == len(size) == len(x.shape) or not all(
        b >= 0 and n >= 0 and b + n <= length
        for b, n, length in zip(begin, size, x.shape, strict=True)
    ):
        raise ShapeError(
            f"begin={begin}, size={size} is not a block of shape {x.shape}; both must be 0 or more, and "
            "begin + size at most the size of each axis"
        )
    if any(size[axis] != 1 for axis in drop):
        raise ShapeError(f"size={size} must be 1 along the axes drop={drop}")
    return Shaped(reduced_shape(size, drop, keep_dims=False), x.dtype)


@kernel("StridedSlice")
def strided_slice(x: Spec, *, begin: Shape, end: Shape, strides: Shape) -> Spec:
    """Return the elements from `begin` to `end` in steps, as ``range`` counts them; steps may be negative."""
    return Shaped(sliced_shape(x.shape, begin, end, strides), x.dtype)


@kernel("StridedSliceGrad")
def strided_slice_gradient(
    dy: Spec, *, shape: Shape, begin: Shape, end: Shape, strides: Shape
) -> Spec:
    """Return zeros of `shape` with dy at the positions that `strided_slice` selects."""
    expected = sliced_shape(shape, begin, end, strides)
    if dy.shape != expected:
        raise ShapeError(f"dy has shape {dy.shape}; the slice of {shape} has shape {expected}")
    return Shaped(shape, dy.dtype)


@kernel("TensorStridedSliceUpdate")
def strided_slice_update(
    tensor: Spec, updates: Spec, *, begin: Shape, end: Shape, strides: Shape
) -> Spec:
    """Return a copy of the tensor whose elements that `strided_slice` selects are replaced by the updates.

    The updates broadcast to the shape of the slice.
    """
    selected = sliced_shape(tensor.shape, begin, end, strides)
    if broadcast(updates.shape, selected) != selected:
        raise ShapeError(
            f"updates have shape {updates.shape}, which does not broadcast to {selected}, the shape of the slice"
        )
    return Shaped(tensor.shape, check_same_dtype("TensorStridedSliceUpdate", tensor, updates))


@kernel("Concat")
def concat(*inputs: Spec, axis: Axis) -> Spec:
    """Return tensors joined along an axis; their other sizes are equal."""
    first = inputs[0].shape
    for x in inputs:
        if len(x.shape) != len(first) or any(
            n != m for i, (n, m) in enumerate(zip(x.shape, first, strict=True)) if i != axis
        ):
            raise ShapeError(
                f"shapes {[x.shape for x in inputs]} must be equal except for the size of axis {axis}"
            )
    joined = sum(x.shape[axis] for x in inputs)
    return Shaped((*first[:axis], joined, *first[axis + 1 :]), check_same_dtype("Concat", *inputs))


@kernel("Pack")
def pack(*inputs: Spec, axis: NewAxis) -> Spec:
    """Return tensors of one shape stacked along a new axis."""
    first = inputs[0].shape
    if any(x.shape != first for x in inputs):
        raise ShapeError(f"the shapes must be equal, not {[x.shape for x in inputs]}")
    return Shaped((*first[:axis], len(inputs), *first[axis:]), check_same_dtype("Pack", *inputs))


@kernel("Unpack")
def unpack(value: Spec, *, axis: Axis) -> tuple[Spec, ...]:
    """Return the slices of a tensor along an axis, which they do not have."""
    part = Shaped((*value.shape[:axis], *value.shape[axis + 1 :]), value.dtype)
    return (part,) * value.shape[axis]


@kernel("SplitV")
def split(x: Spec, *, num_or_size_splits: Shape, axis: Axis) -> tuple[Spec, ...]:
    """Return consecutive parts of a tensor, which have the given sizes along an axis."""
    if sum(num_or_size_splits) != x.shape[axis]:
        raise ShapeError(
            f"sizes {num_or_size_splits} do not add up to {x.shape[axis]}, the size of axis {axis} of {x.shape}"
        )
    return tuple(
        Shaped((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.dtype) for n in num_or_size_splits
    )


@kernel("PadV2")
def pad(x: Spec, *, paddings: Pairs, constant_value: Scalar | str = 0) -> Spec:
    """Return the tensor with (before, after) elements of `constant_value` added to each axis."""
    if len(paddings) != len(x.shape) or any(before < 0 or after < 0 for before, after in paddings):
        raise ShapeError(
            f"paddings={paddings} must be one pair of sizes for each axis of shape {x.shape}"
        )
    if isinstance(constant_value, str) != (x.dtype is string):
        raise DTypeError(
            f"PadV2: constant_value={constant_value!r} is not a {x.dtype}; a string tensor is padded with a str"
        )
    if not can_hold(x.dtype, constant_value):
        raise ArgumentValueError(f"constant_value={constant_value!r} does not fit {x.dtype}")
    return Shaped(tuple(b + n + a for n, (b, a) in zip(x.shape, paddings, strict=True)), x.dtype)


@kernel("Tile")
def tile(x: Spec, *, reps: Shape) -> Spec:
    """Return the tensor repeated ``reps[i]`` times along axis i."""
    if len(reps) != len(x.shape) or any(r < 0 for r in reps):
        raise ShapeError(f"reps={reps} must be one count for each axis of shape {x.shape}")
    return Shaped(tuple(n * r for n, r in zip(x.shape, reps, strict=True)), x.dtype)


@kernel("Reverse")
def reverse(x: Spec, *, dims: Axes) -> Spec:
    """Return the tensor with its elements in reverse order along the axes `dims`."""
    return Shaped(x.shape, x.dtype)
