"""Test rows of sparse tensors: coordinates, values and a dense shape."""

# What references take is an array, which a lambda has no place to say.
# pyright: basic

import numpy as np

from plugrad.kernels import sparse
from plugrad.testing.rows import NUMBER_DTYPES, Array, Row, arbitrary_numbers, fixed_values

ENTRY_COORDINATES = [[3, 1], [0, 4], [3, 0], [1, 1]]
"""The (row, column) of each entry, out of order."""


def sum_segments(x: Array, indices: Array, segment_ids: Array) -> Array:
    """Return the sum of the selected rows of x in each segment."""
    result = np.zeros((int(segment_ids[-1]) + 1, *x.shape[1:]), x.dtype)
    np.add.at(result, segment_ids, x[indices])
    return result


INDICES_AND_SEGMENT_IDS = [([2, 0, 1, 2], [0, 0, 1, 3]), ([0], [0]), ([1, 1, 1], [0, 1, 1])]
"""Indices of rows, each list with the segments to which the rows are added."""

TEST_ROWS = [
    Row(
        sparse.sparse_fill_empty_rows,
        lambda i, v, s, default: [
            np.array([[0, 4], [1, 1], [2, 0], [3, 1], [3, 0], [4, 0]]),
            np.stack([v[1], v[3], default, v[0], v[2], default]),
            np.array([False, False, True, False, True]),
            np.array([3, 0, 4, 1]),
        ],
        [
            fixed_values(ENTRY_COORDINATES, "int32"),
            arbitrary_numbers(4),
            fixed_values([5, 5], "int32"),
            arbitrary_numbers(),
        ],
        dtypes=NUMBER_DTYPES,
    ),
    *(
        Row(
            sparse.sparse_reshape,
            lambda i, old, new: [
                np.stack(
                    np.unravel_index(
                        np.ravel_multi_index(tuple(i.T), tuple(old)),
                        np.zeros(tuple(old)).reshape(tuple(new)).shape,
                    ),
                    -1,
                ),
                np.array(np.zeros(tuple(old)).reshape(tuple(new)).shape),
            ],
            [
                fixed_values(ENTRY_COORDINATES, "int32"),
                fixed_values([4, 5], "int32"),
                fixed_values(new, "int32"),
            ],
            dtypes=["int32"],
        )
        for new in ([20], [2, -1], [5, 2, 2])
    ),
    *(
        Row(
            kernel,
            lambda x, i, ids, f=reference: f(x, i, ids),
            [arbitrary_numbers(3, 2), fixed_values(indices, "int32"), fixed_values(ids, "int32")],
        )
        for indices, ids in INDICES_AND_SEGMENT_IDS
        for kernel, reference in [
            (sparse.sparse_segment_sum, sum_segments),
            (
                sparse.sparse_segment_mean,
                lambda x, i, ids: (
                    sum_segments(x, i, ids) / np.maximum(sum_segments(np.ones((3, 1)), i, ids), 1)
                ),
            ),
        ]
    ),
]
