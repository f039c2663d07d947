"""Kernels that move elements in blocks or mirror them, and the shape to which two shapes broadcast.

Args:
    x: a tensor.
    block_shape: the sizes of a block along the axes after the batch, each at least 1.
"""

from math import prod
from typing import Literal, NamedTuple

from plugrad.contract.kernel import check_dtype, kernel
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.types.dtype import int32
from plugrad.types.specs import Shape, Shaped, Spec
from plugrad.types.windows import DataFormat, ImageFormat, Pairs

MirrorMode = Literal["reflect", "symmetric"]


@kernel("BatchToSpaceND")
def batch_to_space_nd(x: Spec, *, block_shape: Shape, crops: Pairs) -> Spec:
    """Return x with its batch moved into blocks of the axes after it, which then lose (before, after) elements.

    The batch of x consists of as many parts as a block has cells; part i holds cell i of every
    block, in row-major order.

    Args:
        crops: how many elements (before, after) each of these axes then loses.

    Returns:
        a tensor in the dtype of x; its batch is divided by the number of cells of a block, and
            the axes are multiplied by the sizes of a block and then cropped.
    """
    _check_blocks(x, block_shape, crops, "crops")
    rank = 1 + len(block_shape)
    batch, rest = divmod(x.shape[0], prod(block_shape))
    if rest:
        raise ShapeError(
            f"the batch of shape {x.shape} must be a multiple of the {prod(block_shape)} cells of "
            f"block_shape={block_shape}"
        )
    sizes = [
        n * block - before - after
        for n, block, (before, after) in zip(x.shape[1:rank], block_shape, crops, strict=True)
    ]
    if any(n < 0 for n in sizes):
        raise ShapeError(
            f"crops={crops} leave sizes {tuple(sizes)} of shape {x.shape}; they must not be larger than the axes"
        )
    return Shaped((batch, *sizes, *x.shape[rank:]), x.dtype)


@kernel("SpaceToBatchND")
def space_to_batch_nd(x: Spec, *, block_shape: Shape, paddings: Pairs) -> Spec:
    """Return x with (before, after) zeros added to the axes after the batch, and the cells of blocks in the batch.

    The inverse of `batch_to_space_nd`.

    Args:
        paddings: how many zeros (before, after) are added to each of these axes first.

    Returns:
        a tensor in the dtype of x; its batch is multiplied by the number of cells of a block,
            and the padded axes are divided by the sizes of a block.
    """
    _check_blocks(x, block_shape, paddings, "paddings")
    rank = 1 + len(block_shape)
    padded = [
        before + n + after for n, (before, after) in zip(x.shape[1:rank], paddings, strict=True)
    ]
    if any(n % block for n, block in zip(padded, block_shape, strict=True)):
        raise ShapeError(
            f"the padded sizes {tuple(padded)} of shape {x.shape} must be multiples of block_shape={block_shape}; "
            "choose other paddings"
        )
    sizes = [n // block for n, block in zip(padded, block_shape, strict=True)]
    return Shaped((x.shape[0] * prod(block_shape), *sizes, *x.shape[rank:]), x.dtype)


@kernel("DepthToSpace")
def depth_to_space(x: Spec, *, block_size: int, data_format: ImageFormat) -> Spec:
    """Return images with their channels moved into blocks of pixels.

    Channel ``(i * block_size + j) * channels + c`` becomes channel c of the pixel (i, j) of a block,
    as in sub-pixel convolution (Shi and others, 2016).

    Args:
        x: images; their channels are a multiple of ``block_size**2``.
        block_size: the height and the width of a block, at least 2.
        data_format: whether the channels are the last axis ("NHWC") or come before height and width ("NCHW").

    Returns:
        images in the dtype of x whose height and width are `block_size` times as large.
    """
    if len(x.shape) != 4:
        raise ShapeError(f"x must have 4 axes ({data_format}); its shape is {x.shape}")
    if block_size < 2:
        raise ArgumentValueError(f"block_size={block_size} must be 2 or more")
    is_last = data_format == "NHWC"
    depth = x.shape[3 if is_last else 1]
    channels, rest = divmod(depth, block_size**2)
    if rest:
        raise ShapeError(
            f"the {depth} channels of shape {x.shape} ({data_format}) must be a multiple of block_size**2, "
            f"which is {block_size**2}"
        )
    height, width = (n * block_size for n in (x.shape[1:3] if is_last else x.shape[2:]))
    image = (height, width, channels) if is_last else (channels, height, width)
    return Shaped((x.shape[0], *image), x.dtype)


@kernel("MirrorPad")
def mirror_pad(x: Spec, *, paddings: Pairs, mode: MirrorMode) -> Spec:
    """Return the tensor with (before, after) elements added to each axis: its own elements, mirrored.

    The mirror stands between the border element and the first added one ("symmetric"), or on the
    border element, which is then not repeated ("reflect").

    Args:
        x: a tensor with at least one axis.
        paddings: a pair (before, after) for each axis: at most its size, or less than that for "reflect".
        mode: where the mirror stands.

    Returns:
        a tensor of sizes before + size + after, in the dtype of x.
    """
    if len(paddings) != len(x.shape) or not paddings:
        raise ShapeError(
            f"paddings={paddings} must be one pair of sizes for each axis of shape {x.shape}, which must have "
            "at least one axis"
        )
    hidden = 1 if mode == "reflect" else 0
    if any(
        not 0 <= n <= max(0, size - hidden)
        for size, pair in zip(x.shape, paddings, strict=True)
        for n in pair
    ):
        limit = "less than the size" if hidden else "at most the size"
        raise ShapeError(
            f"paddings={paddings} of shape {x.shape} must be 0 or more and {limit} of their axis with mode={mode!r}"
        )
    return Shaped(tuple(b + n + a for n, (b, a) in zip(x.shape, paddings, strict=True)), x.dtype)


@kernel("BroadcastArgs", accepts=frozenset({int32}))
def broadcast_args(s0: Spec, s1: Spec) -> Spec:
    """Return the shape to which two shapes, given as vectors of sizes, are broadcast.

    An implementation raises ShapeError if there is no such shape, which depends on the values.

    Args:
        s0: the first shape, an int32 vector.
        s1: the second shape, an int32 vector.

    Returns:
        an int32 vector, as long as the longer of both.
    """
    check_dtype("BroadcastArgs (s1)", s1, frozenset({int32}))
    for name, sizes in (("s0", s0), ("s1", s1)):
        if len(sizes.shape) != 1:
            raise ShapeError(f"{name} must be a vector; its shape is {sizes.shape}")
    return Shaped((max(s0.shape[0], s1.shape[0]),), int32)


class Rearrangement(NamedTuple):
    """The steps of a movement in blocks: a reshape to `cells`, a transposition to `order`, a reshape to `shape`."""

    cells: Shape
    """The shape in which each axis of cells in a block is an axis of its own."""
    order: Shape
    """The permutation of the axes."""
    shape: Shape
    """The shape of the result."""


def plan_batch_to_space(shape: Shape, block_shape: Shape) -> Rearrangement:
    """Return the reshapes and the transposition that move cells from the batch into blocks of the other axes.

    >>> plan_batch_to_space((4, 3, 5), (2,))
    Rearrangement(cells=(2, 2, 3, 5), order=(1, 2, 0, 3), shape=(2, 6, 5))
    """
    count = len(block_shape)
    batch, sizes, rest = shape[0] // prod(block_shape), shape[1 : 1 + count], shape[1 + count :]
    cells = (*block_shape, batch, *sizes, *rest)
    # Each axis is followed by the axis of its cells.
    pairs = [axis for i in range(count) for axis in (count + 1 + i, i)]
    large = (n * block for n, block in zip(sizes, block_shape, strict=True))
    return Rearrangement(
        cells, (count, *pairs, *range(2 * count + 1, len(cells))), (batch, *large, *rest)
    )


def plan_space_to_batch(shape: Shape, block_shape: Shape) -> Rearrangement:
    """Return the reshapes and the transposition that move the cells of blocks into the batch.

    >>> plan_space_to_batch((2, 6, 5), (2,))
    Rearrangement(cells=(2, 3, 2, 5), order=(2, 0, 1, 3), shape=(4, 3, 5))
    """
    count = len(block_shape)
    sizes = [n // block for n, block in zip(shape[1:], block_shape, strict=False)]
    pairs = [n for pair in zip(sizes, block_shape, strict=True) for n in pair]
    rest = shape[1 + count :]
    cells = (shape[0], *pairs, *rest)
    positions, blocks = range(2, 2 * count + 1, 2), range(1, 2 * count, 2)
    order = (*positions, 0, *blocks, *range(2 * count + 1, len(cells)))
    return Rearrangement(cells, order, (shape[0] * prod(block_shape), *sizes, *rest))


def plan_depth_to_space(shape: Shape, block_size: int, data_format: DataFormat) -> Rearrangement:
    """Return the reshapes and the transposition that move the channels of images into blocks of pixels.

    >>> plan_depth_to_space((1, 2, 3, 8), 2, "NHWC")
    Rearrangement(cells=(1, 2, 3, 2, 2, 2), order=(0, 1, 3, 2, 4, 5), shape=(1, 4, 6, 2))
    """
    block = block_size, block_size
    if data_format == "NHWC":
        batch, height, width, depth = shape
        channels = depth // block_size**2
        cells, order = (batch, height, width, *block, channels), (0, 1, 3, 2, 4, 5)
        return Rearrangement(
            cells, order, (batch, height * block_size, width * block_size, channels)
        )
    batch, depth, height, width = shape
    channels = depth // block_size**2
    cells, order = (batch, *block, channels, height, width), (0, 3, 4, 1, 5, 2)
    return Rearrangement(cells, order, (batch, channels, height * block_size, width * block_size))


def _check_blocks(x: Spec, block_shape: Shape, margins: Pairs, margins_name: str) -> None:
    """Raise unless the blocks and the margins, which are crops or paddings, fit the axes after the batch."""
    if len(margins) != len(block_shape) or any(n < 0 for pair in margins for n in pair):
        raise ShapeError(
            f"{margins_name}={margins} must be one pair (before, after) of sizes of 0 or more for each of the "
            f"{len(block_shape)} axes of block_shape={block_shape}"
        )
    if len(x.shape) < 1 + len(block_shape):
        raise ShapeError(
            f"block_shape={block_shape} is for {len(block_shape)} axes after the batch; x has shape {x.shape}"
        )
    if any(n < 1 for n in block_shape):
        raise ArgumentValueError(f"block_shape={block_shape} must be sizes of 1 or more")
