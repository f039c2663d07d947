"""Kernels that move elements without computing. Axes, begins and sizes arrive complete and counted from the front.

Args:
    x: a tensor.
    inputs: at least one tensor; all have one dtype.
    begin: the first position of each axis.
    end: the position of each axis at which the slice ends; it does not belong to the slice.
    strides: the steps between the positions of each axis, which are not 0.
"""

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
    """Return the elements in another shape.

    Args:
        shape: the new shape, with as many elements; one of its sizes may be -1, which is inferred.

    Returns:
        a tensor of the new shape in the dtype of x; its elements stay in row-major order.
    """
    return Shaped(resolve_shape(as_shape(shape), count_elements(x.shape)), x.dtype)


@kernel("ExpandDims")
def expand_dims(input: Spec, *, dim: NewAxis) -> Spec:
    """Return the tensor with an axis of size 1 inserted at position `dim`.

    Args:
        input: a tensor.
        dim: the position of the new axis in the result.

    Returns:
        a tensor with one more axis in the dtype of the input.
    """
    return Shaped((*input.shape[:dim], 1, *input.shape[dim:]), input.dtype)


@kernel("Transpose")
def transpose(x: Spec, *, perm: Shape) -> Spec:
    """Return the tensor with its axes reordered: axis i of the result is axis ``perm[i]`` of x.

    Args:
        perm: each axis of x once, in the new order.

    Returns:
        a tensor of shape ``[x.shape[axis] for axis in perm]`` in the dtype of x.
    """
    if sorted(perm) != list(range(len(x.shape))):
        raise AxisError(
            f"perm={perm} must name each of the {len(x.shape)} axes of shape {x.shape} once"
        )
    return Shaped(tuple(x.shape[p] for p in perm), x.dtype)


@kernel("BroadcastTo")
def broadcast_to(x: Spec, *, shape: Shape) -> Spec:
    """Return the tensor repeated along missing axes and along axes of size 1.

    Args:
        shape: the new shape, to which that of x broadcasts.

    Returns:
        a tensor of the new shape in the dtype of x.
    """
    if broadcast(x.shape, shape) != shape:
        raise ShapeError(
            f"shape {x.shape} does not broadcast to {shape}, which must have at least as many axes, and "
            "other sizes only where x has size 1"
        )
    return Shaped(shape, x.dtype)


@kernel("Slice")
def slice(x: Spec, *, begin: Shape, size: Shape, drop: Axes = ()) -> Spec:
    """Return the block of `size` that starts at `begin`, without the axes `drop`, along which it has size 1.

    Args:
        size: the size of each axis of the block, which lies within x.
        drop: the axes that the result does not have.

    Returns:
        a tensor of shape `size` without the axes `drop`, in the dtype of x.
    """
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
    """Return the elements from `begin` to `end` in steps, as ``range`` counts them; steps may be negative.

    Returns:
        a tensor in the dtype of x; each axis has as many elements as ``range(begin, end, stride)``.
    """
    return Shaped(sliced_shape(x.shape, begin, end, strides), x.dtype)


@kernel("StridedSliceGrad")
def strided_slice_gradient(
    dy: Spec, *, shape: Shape, begin: Shape, end: Shape, strides: Shape
) -> Spec:
    """Return zeros of `shape` with dy at the positions that `strided_slice` selects.

    Args:
        dy: the gradient of the slice, of its shape.
        shape: the shape of the tensor from which the slice was taken.

    Returns:
        a tensor of `shape` in the dtype of dy.
    """
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

    Args:
        tensor: the tensor to copy.
        updates: the new elements, of the dtype of the tensor.

    Returns:
        a tensor of the shape and the dtype of the tensor.
    """
    selected = sliced_shape(tensor.shape, begin, end, strides)
    if broadcast(updates.shape, selected) != selected:
        raise ShapeError(
            f"updates have shape {updates.shape}, which does not broadcast to {selected}, the shape of the slice"
        )
    return Shaped(tensor.shape, check_same_dtype("TensorStridedSliceUpdate", tensor, updates))


@kernel("Concat")
def concat(*inputs: Spec, axis: Axis) -> Spec:
    """Return tensors joined along an axis; their other sizes are equal.

    Args:
        axis: the axis along which the tensors are joined.

    Returns:
        a tensor in the dtype of the inputs; the size of its axis is the sum of theirs.
    """
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
    """Return tensors of one shape stacked along a new axis.

    Args:
        axis: the position of the new axis in the result.

    Returns:
        a tensor with one more axis, whose size is the number of inputs, in their dtype.
    """
    first = inputs[0].shape
    if any(x.shape != first for x in inputs):
        raise ShapeError(f"the shapes must be equal, not {[x.shape for x in inputs]}")
    return Shaped((*first[:axis], len(inputs), *first[axis:]), check_same_dtype("Pack", *inputs))


@kernel("Unpack")
def unpack(value: Spec, *, axis: Axis) -> tuple[Spec, ...]:
    """Return the slices of a tensor along an axis, which they do not have.

    Args:
        value: a tensor with at least one axis.
        axis: the axis that is taken apart.

    Returns:
        *slices: one tensor without the axis for each of its elements, in the dtype of the value.
    """
    part = Shaped((*value.shape[:axis], *value.shape[axis + 1 :]), value.dtype)
    return (part,) * value.shape[axis]


@kernel("SplitV")
def split(x: Spec, *, num_or_size_splits: Shape, axis: Axis) -> tuple[Spec, ...]:
    """Return consecutive parts of a tensor, which have the given sizes along an axis.

    Args:
        num_or_size_splits: the size of each part, which add up to the size of the axis.
        axis: the axis that is split.

    Returns:
        *parts: a tensor for each size, in the dtype of x.
    """
    if sum(num_or_size_splits) != x.shape[axis]:
        raise ShapeError(
            f"sizes {num_or_size_splits} do not add up to {x.shape[axis]}, the size of axis {axis} of {x.shape}"
        )
    return tuple(
        Shaped((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.dtype) for n in num_or_size_splits
    )


@kernel("PadV2")
def pad(x: Spec, *, paddings: Pairs, constant_value: Scalar | str = 0) -> Spec:
    """Return the tensor with (before, after) elements of `constant_value` added to each axis.

    Args:
        paddings: a pair (before, after) of 0 or more for each axis.
        constant_value: the value of the new elements, which must fit the dtype; a str for strings.

    Returns:
        a tensor of sizes before + size + after, in the dtype of x.
    """
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
    """Return the tensor repeated ``reps[i]`` times along axis i.

    Args:
        reps: a number of 0 or more for each axis.

    Returns:
        a tensor of sizes ``reps[i] * x.shape[i]``, in the dtype of x.
    """
    if len(reps) != len(x.shape) or any(r < 0 for r in reps):
        raise ShapeError(f"reps={reps} must be one count for each axis of shape {x.shape}")
    return Shaped(tuple(n * r for n, r in zip(x.shape, reps, strict=True)), x.dtype)


@kernel("Reverse")
def reverse(x: Spec, *, dims: Axes) -> Spec:
    """Return the tensor with its elements in reverse order along the axes `dims`.

    Args:
        dims: the axes whose order is reversed.

    Returns:
        a tensor of the shape and the dtype of x.
    """
    return Shaped(x.shape, x.dtype)
