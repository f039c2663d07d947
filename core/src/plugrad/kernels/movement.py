"""Kernels that move elements without computing. Axes, begins and sizes arrive complete and counted from the front."""

from plugrad.contract.annotations import Axes, Axis, NewAxis
from plugrad.contract.kernel import agreed, kernel
from plugrad.errors import ArgumentValueError, AxisError, DTypeError, ShapeError
from plugrad.types.dtype import Scalar, holds, string
from plugrad.types.shapes import broadcast, completed, shape_of, size_of, sliced
from plugrad.types.specs import Shape, Shaped, Spec
from plugrad.types.windows import Pairs


@kernel("Reshape")
def reshape(x: Spec, *, shape: Shape) -> Spec:
    """Give the elements another shape."""
    return Shaped(completed(shape_of(shape), size_of(x.shape)), x.dtype)


@kernel("ExpandDims")
def expand_dims(input: Spec, *, dim: NewAxis) -> Spec:
    """Insert an axis of size 1 at position `dim`."""
    return Shaped((*input.shape[:dim], 1, *input.shape[dim:]), input.dtype)


@kernel("Transpose")
def transpose(x: Spec, *, perm: Shape) -> Spec:
    """Reorder the axes: axis i of the result is axis ``perm[i]`` of x."""
    if sorted(perm) != list(range(len(x.shape))):
        raise AxisError(
            f"Transpose: perm={perm} must name each of the {len(x.shape)} axes of shape {x.shape} once"
        )
    return Shaped(tuple(x.shape[p] for p in perm), x.dtype)


@kernel("BroadcastTo")
def broadcast_to(x: Spec, *, shape: Shape) -> Spec:
    """Repeat along missing axes and axes of size 1."""
    if broadcast(x.shape, shape) != shape:
        raise ShapeError(
            f"BroadcastTo: shape {x.shape} does not broadcast to {shape}, which must have as many "
            "axes or more, and other sizes only where the first one has 1"
        )
    return Shaped(shape, x.dtype)


@kernel("Slice")
def slice(x: Spec, *, begin: Shape, size: Shape) -> Spec:
    """Cut out the block that starts at `begin`."""
    if not len(begin) == len(size) == len(x.shape) or not all(
        b >= 0 and n >= 0 and b + n <= length
        for b, n, length in zip(begin, size, x.shape, strict=True)
    ):
        raise ShapeError(
            f"Slice: begin={begin}, size={size} is not a block of shape {x.shape}; both must be 0 or "
            "more, and begin + size at most the size of each axis"
        )
    return Shaped(tuple(size), x.dtype)


@kernel("StridedSlice")
def strided_slice(x: Spec, *, begin: Shape, end: Shape, strides: Shape) -> Spec:
    """Take elements from `begin` to `end` in steps, as ``range`` does; steps may be negative."""
    return Shaped(sliced(x.shape, begin, end, strides), x.dtype)


@kernel("StridedSliceGrad")
def strided_slice_gradient(
    dy: Spec, *, shape: Shape, begin: Shape, end: Shape, strides: Shape
) -> Spec:
    """Return zeros of `shape` with dy at the positions that `strided_slice` takes."""
    if dy.shape != sliced(shape, begin, end, strides):
        raise ShapeError(
            f"StridedSliceGrad: dy has shape {dy.shape}; the slice of {shape} has {sliced(shape, begin, end, strides)}"
        )
    return Shaped(shape, dy.dtype)


@kernel("Concat")
def concat(*inputs: Spec, axis: Axis) -> Spec:
    """Join tensors along an axis; their other sizes are equal."""
    first = inputs[0].shape
    for x in inputs:
        if len(x.shape) != len(first) or any(
            n != m for i, (n, m) in enumerate(zip(x.shape, first, strict=True)) if i != axis
        ):
            raise ShapeError(
                f"Concat: shapes {[x.shape for x in inputs]} must be equal but for the size of axis {axis}"
            )
    joined = sum(x.shape[axis] for x in inputs)
    return Shaped((*first[:axis], joined, *first[axis + 1 :]), agreed("Concat", *inputs))


@kernel("Pack")
def pack(*inputs: Spec, axis: NewAxis) -> Spec:
    """Stack tensors of one shape along a new axis."""
    first = inputs[0].shape
    if any(x.shape != first for x in inputs):
        raise ShapeError(f"Pack: the shapes must be equal, not {[x.shape for x in inputs]}")
    return Shaped((*first[:axis], len(inputs), *first[axis:]), agreed("Pack", *inputs))


@kernel("Unpack")
def unpack(value: Spec, *, axis: Axis) -> tuple[Spec, ...]:
    """Take a tensor apart along an axis, which disappears."""
    part = Shaped((*value.shape[:axis], *value.shape[axis + 1 :]), value.dtype)
    return (part,) * value.shape[axis]


@kernel("SplitV")
def split(x: Spec, *, num_or_size_splits: Shape, axis: Axis) -> tuple[Spec, ...]:
    """Cut a tensor into parts of the given sizes along an axis."""
    if sum(num_or_size_splits) != x.shape[axis] or any(n < 0 for n in num_or_size_splits):
        raise ShapeError(
            f"SplitV: sizes {tuple(num_or_size_splits)} do not add up to {x.shape[axis]}, the "
            f"size of axis {axis} of {x.shape}"
        )
    return tuple(
        Shaped((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.dtype) for n in num_or_size_splits
    )


@kernel("PadV2")
def pad(x: Spec, *, paddings: Pairs, constant_value: Scalar | str = 0) -> Spec:
    """Add (before, after) elements of `constant_value` to each axis."""
    if len(paddings) != len(x.shape) or any(before < 0 or after < 0 for before, after in paddings):
        raise ShapeError(
            f"PadV2: paddings={paddings} must be one pair of sizes for each axis of shape {x.shape}"
        )
    if isinstance(constant_value, str) != (x.dtype is string):
        raise DTypeError(
            f"PadV2: constant_value={constant_value!r} is no {x.dtype}; strings are padded with a str"
        )
    if not holds(x.dtype, constant_value):
        raise ArgumentValueError(f"PadV2: constant_value={constant_value!r} does not fit {x.dtype}")
    return Shaped(tuple(b + n + a for n, (b, a) in zip(x.shape, paddings, strict=True)), x.dtype)


@kernel("Tile")
def tile(x: Spec, *, reps: Shape) -> Spec:
    """Repeat the tensor ``reps[i]`` times along axis i."""
    if len(reps) != len(x.shape) or any(r < 0 for r in reps):
        raise ShapeError(f"Tile: reps={reps} must be one count for each axis of shape {x.shape}")
    return Shaped(tuple(n * r for n, r in zip(x.shape, reps, strict=True)), x.dtype)


@kernel("Reverse")
def reverse(x: Spec, *, dims: Axes) -> Spec:
    """Reverse the order along the axes `dims`."""
    return Shaped(x.shape, x.dtype)
