"""Test rows of ragged tensors, whose rows differ in length."""

from collections.abc import Callable

import numpy as np

from plugrad.kernels import ragged
from plugrad.testing.rows import NUMBER_DTYPES, Array, Row, arbitrary_numbers, fixed_values

FLOAT_DTYPES = ("float32", "float64")


def known_outputs(*outputs: object) -> Callable[..., list[Array]]:
    """Return a reference that gives known outputs, worked out by hand."""
    return lambda *inputs: [np.asarray(part) for part in outputs]


def to_dense(values: Array, default: Array, positions: list[list[int]]) -> Array:
    """Return the values at positions, and the default at -1."""
    return np.stack([np.stack([default if i < 0 else values[i] for i in row]) for row in positions])


TEST_ROWS = [
    *(
        Row(
            ragged.ragged_range,
            known_outputs(splits, values),
            [fixed_values(starts), fixed_values(limits), fixed_values(deltas)],
            dtypes=FLOAT_DTYPES if is_smooth else (*FLOAT_DTYPES, "int32", "int64"),
            is_smooth=is_smooth,
        )
        for starts, limits, deltas, splits, values, is_smooth in [
            (
                [0, 5, 8, 5],
                [8, 7, 8, 1],
                [2, 1, 1, -1],
                [0, 4, 6, 6, 10],
                [0, 2, 4, 6, 5, 6, 5, 4, 3, 2],
                False,  # a limit is met exactly
            ),
            (0, [3, 0, 2], 1, [0, 3, 3, 5], [0, 1, 2, 0, 1], False),
            (0, 5, 2, [0, 3], [0, 2, 4], False),
            (0.25, [1.6, 0.5], 0.5, [0, 3, 4], [0.25, 0.75, 1.25, 0.25], True),
        ]
    ),
    *(
        Row(
            ragged.ragged_gather,
            lambda x, i, *splits, s=found, p=places: [*map(np.array, s), x[p]],
            [
                arbitrary_numbers(5, 2),
                fixed_values(indices, "int32"),
                fixed_values([0, 2, 2, 5], "int32"),
            ],
            {"output_ragged_rank": np.ndim(indices)},
            dtypes=NUMBER_DTYPES,
        )
        for indices, found, places in [
            ([2, 0], [[0, 3, 5]], [2, 3, 4, 0, 1]),
            ([[2, 0], [1, 2]], [[0, 2, 4], [0, 3, 5, 5, 8]], [2, 3, 4, 0, 1, 2, 3, 4]),
        ]
    ),
    *(
        Row(
            ragged.ragged_tensor_to_tensor,
            lambda shape, x, default, *partitions, rows=rows: to_dense(x, default, rows),
            [
                fixed_values(shape, "int32"),
                arbitrary_numbers(5),
                arbitrary_numbers(),
                *(fixed_values(partition, "int32") for partition in partitions),
            ],
            {"row_partition_types": kinds},
            dtypes=NUMBER_DTYPES,
        )
        for shape, kinds, partitions, rows in [
            (-1, ("ROW_SPLITS",), [[0, 2, 2, 5]], [[0, 1, -1], [-1, -1, -1], [2, 3, 4]]),
            ([2, 2], ("ROW_SPLITS",), [[0, 2, 2, 5]], [[0, 1], [-1, -1]]),
            (
                [-1, 4],
                ("FIRST_DIM_SIZE", "VALUE_ROWIDS"),
                [3, [0, 0, 2, 2, 2]],
                [[0, 1, -1, -1], [-1, -1, -1, -1], [2, 3, 4, -1]],
            ),
        ]
    ),
]
