"""Gradients of the rearrangement kernels: the inverse rearrangement of dy, or dy folded at a mirror."""

# The parameters of lambdas cannot be annotated.
# pyright: reportUnknownMemberType=false

from plugrad.kernels import binary, movement, rearrangement
from plugrad.kernels.rearrangement import MirrorMode
from plugrad.tape.rules import gradient, not_differentiable
from plugrad.tensor.tensor import Tensor
from plugrad.types.specs import Spec
from plugrad.types.windows import ImageFormat, Pairs


def _blocks_to_depth(dy: Tensor, x_spec: Spec, block_size: int, data_format: ImageFormat) -> Tensor:
    """Return dy with the pixels of each block moved to the channels."""
    if data_format == "NHWC":
        batch, height, width, _ = x_spec.shape
        cells = (batch, height, block_size, width, block_size, dy.shape[3])
        perm = (0, 1, 3, 2, 4, 5)
    else:
        batch, _, height, width = x_spec.shape
        cells = (batch, dy.shape[1], height, block_size, width, block_size)
        perm = (0, 3, 5, 1, 2, 4)
    moved = movement.transpose(movement.reshape(dy, shape=cells), perm=perm)
    return movement.reshape(moved, shape=x_spec.shape)


def _fold_mirrored(dy: Tensor, x_spec: Spec, paddings: Pairs, mode: MirrorMode) -> Tensor:
    """Return dy with the padding of each axis mirrored back and added to the elements that it copies."""
    hidden = 1 if mode == "reflect" else 0
    for axis, (before, after) in enumerate(paddings):
        size = x_spec.shape[axis]
        inner = _slice_axis(dy, axis, before, size)
        if before:
            image = movement.reverse(_slice_axis(dy, axis, 0, before), dims=(axis,))
            inner = binary.add(inner, _pad_axis(image, axis, hidden, size))
        if after:
            image = movement.reverse(_slice_axis(dy, axis, before + size, after), dims=(axis,))
            inner = binary.add(inner, _pad_axis(image, axis, size - hidden - after, size))
        dy = inner
    return dy


def _slice_axis(x: Tensor, axis: int, begin: int, size: int) -> Tensor:
    """Return `size` elements from `begin` on along an axis."""
    return movement.slice(
        x,
        begin=tuple(begin if i == axis else 0 for i in range(x.ndim)),
        size=tuple(size if i == axis else n for i, n in enumerate(x.shape)),
    )


def _pad_axis(x: Tensor, axis: int, begin: int, size: int) -> Tensor:
    """Pad x with zeros to `size` along an axis, starting at `begin`."""
    around = (begin, size - begin - x.shape[axis])
    return movement.pad(x, paddings=tuple(around if i == axis else (0, 0) for i in range(x.ndim)))


gradient(
    rearrangement.batch_to_space_nd,
    x=lambda dy, block_shape, crops: rearrangement.space_to_batch_nd(
        dy, block_shape=block_shape, paddings=crops
    ),
)
gradient(
    rearrangement.space_to_batch_nd,
    x=lambda dy, block_shape, paddings: rearrangement.batch_to_space_nd(
        dy, block_shape=block_shape, crops=paddings
    ),
)
gradient(rearrangement.depth_to_space, x=_blocks_to_depth)
gradient(rearrangement.mirror_pad, x=_fold_mirrored)
not_differentiable(rearrangement.broadcast_args, because="sizes are integers")
