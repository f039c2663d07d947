"""Gradients of the movement kernels: dy goes back to where the elements came from."""

# The parameters of lambdas cannot be annotated.
# pyright: reportUnknownMemberType=false

from collections.abc import Sequence

from plugrad.kernels import creation, movement, reduction
from plugrad.registry.unchecked import reshape_unchecked
from plugrad.tape.rules import gradient
from plugrad.tensor.tensor import Tensor
from plugrad.types.specs import Shape, Spec
from plugrad.types.windows import Pairs


def _split_dy_by_input_sizes(dy: Tensor, inputs_spec: Sequence[Spec], axis: int) -> list[Tensor]:
    """Return the part of dy that belongs to each concatenated input."""
    return movement.split(
        dy, num_or_size_splits=tuple(x.shape[axis] for x in inputs_spec), axis=axis
    )


def _pad_dy_to_sliced_shape(
    dy: Tensor, x_spec: Spec, begin: Shape, size: Shape, drop: tuple[int, ...]
) -> Tensor:
    """Return dy padded with zeros to the shape of the sliced tensor."""
    return movement.pad(
        movement.reshape(dy, shape=size) if drop else dy,
        paddings=tuple((b, n - b - s) for b, s, n in zip(begin, size, x_spec.shape, strict=True)),
    )


def _remove_padding_from_dy(dy: Tensor, x_spec: Spec, paddings: Pairs) -> Tensor:
    """Return the part of dy that belongs to the elements that were padded."""
    return movement.slice(dy, begin=tuple(before for before, _ in paddings), size=x_spec.shape)


def _sum_repetitions(dy: Tensor, x_spec: Spec, reps: Shape) -> Tensor:
    """Return dy summed over the repetitions, each of which becomes a separate axis."""
    shape = tuple(n for pair in zip(reps, x_spec.shape, strict=True) for n in pair)
    return reduction.sum(movement.reshape(dy, shape=shape), axis=tuple(range(0, len(shape), 2)))


def _invert_permutation(dy: Tensor, perm: Shape) -> Tensor:
    """Transpose dy back by the inverse permutation."""
    return movement.transpose(dy, perm=tuple(perm.index(i) for i in range(len(perm))))


def _scatter_dy_to_sliced_shape(
    dy: Tensor, x_spec: Spec, begin: Shape, end: Shape, strides: Shape
) -> Tensor:
    """Return zeros in the shape of the sliced tensor, with dy at the elements that were taken."""
    return movement.strided_slice_gradient(
        dy, shape=x_spec.shape, begin=begin, end=end, strides=strides
    )


def _zero_slice(dy: Tensor, begin: Shape, end: Shape, strides: Shape) -> Tensor:
    """Return dy with zeros in the overwritten slice."""
    zero = creation.fill.on(dy.backend, shape=(), value=0, dtype=dy.dtype)
    return movement.strided_slice_update(dy, zero, begin=begin, end=end, strides=strides)


gradient(movement.reshape, x=lambda dy, x_spec: reshape_unchecked(dy, x_spec.shape))
gradient(movement.expand_dims, input=lambda dy, input_spec: reshape_unchecked(dy, input_spec.shape))
gradient(movement.transpose, x=_invert_permutation)
gradient(movement.broadcast_to, x=lambda dy: dy)  # the tape sums it to the shape of x
gradient(movement.slice, x=_pad_dy_to_sliced_shape)
gradient(movement.strided_slice, x=_scatter_dy_to_sliced_shape)
gradient(
    movement.strided_slice_gradient,
    dy=lambda dy, begin, end, strides: movement.strided_slice(
        dy, begin=begin, end=end, strides=strides
    ),
)
gradient(
    movement.strided_slice_update,
    tensor=_zero_slice,
    updates=lambda dy, begin, end, strides: movement.strided_slice(
        dy, begin=begin, end=end, strides=strides
    ),
)
gradient(movement.concat, inputs=_split_dy_by_input_sizes)
gradient(movement.pack, inputs=lambda dy, axis: movement.unpack(dy, axis=axis))
gradient(movement.unpack, value=lambda dy, axis: movement.pack(*dy, axis=axis))
gradient(movement.split, x=lambda dy, axis: movement.concat(*dy, axis=axis))
gradient(movement.pad, x=_remove_padding_from_dy)
gradient(movement.tile, x=_sum_repetitions)
gradient(movement.reverse, x=lambda dy, dims: movement.reverse(dy, dims=dims))
