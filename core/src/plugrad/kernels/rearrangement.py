"""Kernels that move elements in blocks or mirror them, and the shape that two shapes broadcast to."""

from math import prod
from typing import Literal

from plugrad.contract.kernel import accepted, kernel
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.types.dtype import int32
from plugrad.types.specs import Shape, Shaped, Spec
from plugrad.types.windows import DataFormat, Pairs

MirrorMode = Literal["reflect", "symmetric"]


def _check_blocks(name: str, x: Spec, block_shape: Shape, margins: Pairs, what: str) -> None:
    if len(margins) != len(block_shape) or any(n < 0 for pair in margins for n in pair):
        raise ShapeError(
            f"{name}: {what}={margins} must be one (before, after) of sizes 0 or more for each of the "
            f"{len(block_shape)} axes of block_shape={block_shape}"
        )
    if len(x.shape) < 1 + len(block_shape):
        raise ShapeError(
            f"{name}: block_shape={block_shape} is for {len(block_shape)} axes after the batch; "
            f"x has shape {x.shape}"
        )
    if any(n < 1 for n in block_shape):
        raise ArgumentValueError(f"{name}: block_shape={block_shape} must be sizes of 1 or more")


@kernel("BatchToSpaceND")
def batch_to_space_nd(x: Spec, *, block_shape: Shape, crops: Pairs) -> Spec:
    """Move the batch into blocks of the axes after it, then cut (before, after) elements off these.

    Batch i of x holds the cell of every block that has position i, counted in row-major order.
    """
    _check_blocks("BatchToSpaceND", x, block_shape, crops, "crops")
    rank = 1 + len(block_shape)
    batch, rest = divmod(x.shape[0], prod(block_shape))
    if rest:
        raise ShapeError(
            f"BatchToSpaceND: the batch of shape {x.shape} must be a multiple of the "
            f"{prod(block_shape)} cells of block_shape={block_shape}"
        )
    sizes = [
        n * block - before - after
        for n, block, (before, after) in zip(x.shape[1:rank], block_shape, crops, strict=True)
    ]
    if any(n < 0 for n in sizes):
        raise ShapeError(
            f"BatchToSpaceND: crops={crops} leave sizes {tuple(sizes)} of shape {x.shape}; "
            "they must not be larger than the axes"
        )
    return Shaped((batch, *sizes, *x.shape[rank:]), x.dtype)


@kernel("SpaceToBatchND")
def space_to_batch_nd(x: Spec, *, block_shape: Shape, paddings: Pairs) -> Spec:
    """Add (before, after) zeros to the axes after the batch, then move the cells of their blocks to the batch."""
    _check_blocks("SpaceToBatchND", x, block_shape, paddings, "paddings")
    rank = 1 + len(block_shape)
    padded = [
        before + n + after for n, (before, after) in zip(x.shape[1:rank], paddings, strict=True)
    ]
    if any(n % block for n, block in zip(padded, block_shape, strict=True)):
        raise ShapeError(
            f"SpaceToBatchND: the padded sizes {tuple(padded)} of shape {x.shape} must be multiples "
            f"of block_shape={block_shape}; choose other paddings"
        )
    sizes = [n // block for n, block in zip(padded, block_shape, strict=True)]
    return Shaped((x.shape[0] * prod(block_shape), *sizes, *x.shape[rank:]), x.dtype)


@kernel("DepthToSpace")
def depth_to_space(x: Spec, *, block_size: int, data_format: DataFormat) -> Spec:
    """Move channels into blocks of the image.

    Channel ``(i * block_size + j) * channels + c`` becomes channel c of the cell (i, j) of a block.
    """
    if len(x.shape) != 4:
        raise ShapeError(
            f"DepthToSpace: x must have 4 axes ({data_format}); its shape is {x.shape}"
        )
    if data_format not in ("NHWC", "NCHW"):
        raise ArgumentValueError(
            f"DepthToSpace: data_format={data_format!r} must be 'NHWC' or 'NCHW'"
        )
    if block_size < 2:
        raise ArgumentValueError(f"DepthToSpace: block_size={block_size} must be 2 or more")
    is_last = data_format == "NHWC"
    depth = x.shape[3 if is_last else 1]
    channels, rest = divmod(depth, block_size**2)
    if rest:
        raise ShapeError(
            f"DepthToSpace: the {depth} channels of shape {x.shape} ({data_format}) must be a multiple "
            f"of block_size**2, which is {block_size**2}"
        )
    height, width = (n * block_size for n in (x.shape[1:3] if is_last else x.shape[2:]))
    image = (height, width, channels) if is_last else (channels, height, width)
    return Shaped((x.shape[0], *image), x.dtype)


@kernel("MirrorPad")
def mirror_pad(x: Spec, *, paddings: Pairs, mode: MirrorMode) -> Spec:
    """Add (before, after) elements to each axis: those inside, mirrored.

    The mirror stands between the border and what is added ("symmetric"), or on the border element,
    which is then not repeated ("reflect").
    """
    if mode not in ("reflect", "symmetric"):
        raise ArgumentValueError(f"MirrorPad: mode={mode!r} must be 'reflect' or 'symmetric'")
    if len(paddings) != len(x.shape) or not paddings:
        raise ShapeError(
            f"MirrorPad: paddings={paddings} must be one pair of sizes for each axis of shape {x.shape}, "
            "which must have one"
        )
    hidden = 1 if mode == "reflect" else 0
    if any(
        not 0 <= n <= max(0, size - hidden)
        for size, pair in zip(x.shape, paddings, strict=True)
        for n in pair
    ):
        limit = "less than the size" if hidden else "at most the size"
        raise ShapeError(
            f"MirrorPad: paddings={paddings} of shape {x.shape} must be 0 or more and {limit} of their "
            f"axis with mode={mode!r}"
        )
    return Shaped(tuple(b + n + a for n, (b, a) in zip(x.shape, paddings, strict=True)), x.dtype)


@kernel("BroadcastArgs", accepts=frozenset({int32}))
def broadcast_args(s0: Spec, s1: Spec) -> Spec:
    """Return the shape to which two shapes, given as vectors of sizes, are broadcast.

    An implementation raises ShapeError if there is none, which only the values tell.
    """
    for name, sizes in (("s0", s0), ("s1", s1)):
        accepted(f"BroadcastArgs ({name})", sizes, frozenset({int32}))
        if len(sizes.shape) != 1:
            raise ShapeError(f"BroadcastArgs: {name} must be a vector; its shape is {sizes.shape}")
    return Shaped((max(s0.shape[0], s1.shape[0]),), int32)
