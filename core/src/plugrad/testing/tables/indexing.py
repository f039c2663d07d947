"""Test rows of the kernels that select elements by position."""

import numpy as np

from plugrad.kernels import indexing
from plugrad.testing.rows import (
    NUMBER_DTYPES,
    ROW_DTYPE,
    Array,
    Row,
    arbitrary_numbers,
    bools,
    fixed_values,
    integers,
)
from plugrad.types.specs import Shape


def take_in_each_batch(x: Array, indices: Array, axis: int) -> Array:
    """Return for each batch the elements of x at the indices of the same batch."""
    return np.stack([np.take(a, i, axis - 1) for a, i in zip(x, indices, strict=True)])


def sum_segments(x: Array, segment_ids: Array, segment_count: int) -> Array:
    """Return the sum of the elements of each segment; elements without a valid segment are dropped."""
    result = np.zeros((segment_count, *x.shape[segment_ids.ndim :]), x.dtype)
    for place in np.ndindex(*segment_ids.shape):
        if 0 <= segment_ids[place] < segment_count:
            result[segment_ids[place]] += x[place]
    return result


def scatter_gathered(dy: Array, indices: Array, shape: Shape, axis: int, batch_dims: int) -> Array:
    """Return zeros with the parts of dy added at the positions that they were taken from."""
    result = np.zeros(shape, dy.dtype)
    for place in np.ndindex(*indices.shape):
        batch, rest = place[:batch_dims], place[batch_dims:]
        between = (slice(None),) * (axis - batch_dims)
        result[(*batch, *between, indices[place])] += dy[(*batch, *between, *rest)]
    return result


TEST_ROWS = [
    *(
        Row(
            indexing.gather,
            lambda x, i, a=axis: np.take(x, i, a),
            [arbitrary_numbers(*shape), integers(-shape[axis], shape[axis] - 1, *places)],
            {"axis": axis, "batch_dims": 0},
            dtypes=NUMBER_DTYPES,
        )
        for shape, axis, places in [
            ((5, 3), 0, (4,)),
            ((2, 5), 1, (2, 3)),
            ((2, 3, 4), 1, ()),
            ((7,), 0, (2, 1, 2)),
        ]
    ),
    Row(
        indexing.gather,
        lambda x, i: take_in_each_batch(x, i, 2),
        [arbitrary_numbers(2, 3, 5), integers(0, 4, 2, 4)],
        {"axis": 2, "batch_dims": 1},
        dtypes=NUMBER_DTYPES,
    ),
    Row(
        indexing.gather,
        lambda x, i: np.take(x, i, 0),
        [arbitrary_numbers(3, 2), fixed_values(np.zeros((0,)), "int32")],
        {"axis": 0, "batch_dims": 0},
        dtypes=NUMBER_DTYPES,
        is_edge=True,
    ),
    *(
        Row(
            indexing.gather_gradient,
            lambda dy, i, s=shape, a=axis, b=batch_dims: scatter_gathered(dy, i, s, a, b),
            [
                arbitrary_numbers(*shape[:axis], *places[batch_dims:], *shape[axis + 1 :]),
                integers(-shape[axis], shape[axis] - 1, *places),
            ],
            {"shape": shape, "axis": axis, "batch_dims": batch_dims},
            is_edge=0 in places,
        )
        for shape, axis, batch_dims, places in [
            ((5, 3), 0, 0, (4,)),
            ((2, 5), 1, 0, (2, 3)),
            ((2, 3, 4), 1, 0, ()),
            ((3,), 0, 0, (40,)),
            ((3, 7), 1, 1, (3, 4)),
            ((2, 3, 5, 2), 2, 1, (2, 4)),
            ((4, 10), 0, 0, (9,)),
            ((3, 2), 0, 0, (0,)),
        ]
    ),
    *(
        Row(
            indexing.gather_nd,
            lambda x, i: x[tuple(np.moveaxis(i, -1, 0))],
            [arbitrary_numbers(3, 4, 2), fixed_values(places, "int32")],
            dtypes=NUMBER_DTYPES,
        )
        for places in ([[2], [0]], [[2, 3], [0, 0], [-1, -4]], [[[0, 1, 1]], [[2, 3, 0]]])
    ),
    Row(indexing.where_true, np.argwhere, [bools(3, 5)]),
    *(
        Row(indexing.where_true, np.argwhere, [fixed_values(values, "bool")], is_edge=True)
        for values in (np.zeros((2, 3)), np.ones((2, 2, 2)), np.zeros((0, 3)))
    ),
    *(
        Row(
            indexing.one_hot,
            lambda i: np.where(i[..., None] == np.arange(4), 2, -1),
            [integers(-2, 5, *shape)],
            {"depth": 4, "on_value": 2, "off_value": -1, "dtype": ROW_DTYPE},
            dtypes=("float32", "float64", "int32", "int64"),
        )
        for shape in [(5,), (2, 3), ()]
    ),
    *(
        Row(
            indexing.unsorted_segment_sum,
            lambda x, ids: sum_segments(x, ids, 4),
            [arbitrary_numbers(*shape), integers(-2, 5, *ids)],
            {"num_segments": 4},
            is_edge=0 in shape,
        )
        for shape, ids in [((6,), (6,)), ((6, 3), (6,)), ((2, 3, 2), (2, 3)), ((0, 2), (0,))]
    ),
]
