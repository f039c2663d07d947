"""Test rows of the kernels that move elements in blocks or mirror them."""

import numpy as np

from plugrad.kernels import rearrangement
from plugrad.testing.rows import NUMBER_DTYPES, Array, Row, arbitrary_numbers, fixed_values

MarginPairs = tuple[tuple[int, int], ...]
"""For each axis, the number of elements at its beginning and at its end."""


def space_to_batch(x: Array, block_shape: tuple[int, ...], paddings: MarginPairs) -> Array:
    """Return images of the cells at each position within a block, concatenated along the batch axis."""
    x = np.pad(x, [(0, 0), *paddings, *[(0, 0)] * (x.ndim - 1 - len(block_shape))])
    return np.concatenate(
        [
            x[(slice(None), *(slice(i, None, b) for i, b in zip(cell, block_shape, strict=True)))]
            for cell in np.ndindex(*block_shape)
        ]
    )


def batch_to_space(x: Array, block_shape: tuple[int, ...], crops: MarginPairs) -> Array:
    """Return images put together from the cells of blocks, which follow each other in the batch, and cropped."""
    sizes = [n * b for n, b in zip(x.shape[1:], block_shape, strict=False)]
    batch = x.shape[0] // int(np.prod(block_shape))
    result = np.zeros((batch, *sizes, *x.shape[1 + len(block_shape) :]), x.dtype)
    for cell, part in zip(np.ndindex(*block_shape), np.split(x, len(x) // batch), strict=True):
        place = (slice(i, None, b) for i, b in zip(cell, block_shape, strict=True))
        result[(slice(None), *place)] = part
    kept = (slice(b, n - a) for n, (b, a) in zip(sizes, crops, strict=True))
    return result[(slice(None), *kept)]


def depth_to_space(x: Array, block_size: int) -> Array:
    """Return images whose channels have become blocks of pixels."""
    batch, height, width, depth = x.shape
    x = x.reshape(batch, height, width, block_size, block_size, depth // block_size**2)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(batch, height * block_size, width * block_size, -1)


TEST_ROWS = [
    *(
        Row(
            rearrangement.space_to_batch_nd,
            lambda x, b=block, p=paddings: space_to_batch(x, b, p),
            [arbitrary_numbers(*shape)],
            {"block_shape": block, "paddings": paddings},
            dtypes=NUMBER_DTYPES,
        )
        for shape, block, paddings in [
            ((2, 4, 6, 3), (2, 3), ((0, 0), (0, 0))),
            ((1, 3, 5), (2, 2), ((1, 0), (0, 1))),
            ((2, 6), (3,), ((0, 0),)),
        ]
    ),
    *(
        Row(
            rearrangement.batch_to_space_nd,
            lambda x, b=block, c=crops: batch_to_space(x, b, c),
            [arbitrary_numbers(*shape)],
            {"block_shape": block, "crops": crops},
            dtypes=NUMBER_DTYPES,
        )
        for shape, block, crops in [
            ((12, 2, 2, 3), (2, 3), ((0, 0), (0, 0))),
            ((4, 2, 3), (2, 2), ((1, 0), (0, 2))),
        ]
    ),
    Row(
        rearrangement.depth_to_space,
        lambda x: depth_to_space(x, 2),
        [arbitrary_numbers(2, 2, 3, 12)],
        {"block_size": 2, "data_format": "NHWC"},
        dtypes=NUMBER_DTYPES,
    ),
    Row(
        rearrangement.depth_to_space,
        lambda x: np.moveaxis(depth_to_space(np.moveaxis(x, 1, -1), 3), -1, 1),
        [arbitrary_numbers(1, 18, 2, 2)],
        {"block_size": 3, "data_format": "NCHW"},
        dtypes=NUMBER_DTYPES,
    ),
    *(
        Row(
            rearrangement.mirror_pad,
            lambda x, p=paddings, m=mode: np.pad(x, p, m),  # type: ignore[call-overload]
            [arbitrary_numbers(*shape)],
            {"paddings": paddings, "mode": mode},
            dtypes=NUMBER_DTYPES,
        )
        for shape, paddings in [((3, 4), ((2, 1), (0, 3))), ((5,), ((0, 4),))]
        for mode in ("reflect", "symmetric")
    ),
    *(
        Row(
            rearrangement.broadcast_args,
            lambda a, b: np.array(np.broadcast_shapes(tuple(a), tuple(b))),
            [fixed_values(a, "int32"), fixed_values(b, "int32")],
            dtypes=["int32"],
        )
        for a, b in [([3, 1], [2, 1, 5]), ([], [4]), ([0, 1], [1, 7])]
    ),
]
