"""Test rows of the kernels that write elements at positions."""

from typing import Any

import numpy as np

from plugrad.kernels import scatter
from plugrad.testing.rows import (
    ARITHMETIC_DTYPES,
    NUMBER_DTYPES,
    Array,
    Row,
    arbitrary_numbers,
    fixed_values,
)


def scatter_add(indices: Array, updates: Array, shape: tuple[int, ...]) -> Array:
    """Return zeros with updates added at rows of coordinates."""
    result = np.zeros(shape, updates.dtype)
    np.add.at(result, coordinate_key(indices), updates)
    return result


def coordinate_key(indices: Array) -> tuple[Array, ...]:
    """Return a NumPy index that selects the elements at rows of coordinates."""
    return tuple(np.moveaxis(indices if indices.ndim > 1 else indices[:, None], -1, 0))


def scatter_update(x: Array, indices: Array, updates: Array) -> Array:
    """Return x with the elements at rows of coordinates replaced."""
    x = x.copy()
    x[coordinate_key(indices)] = updates
    return x


INDICES_AND_SHAPES: list[tuple[Any, tuple[int, ...], tuple[int, ...]]] = [
    ([[2], [0], [3]], (3,), (5,)),
    ([[2], [0]], (2, 3), (4, 3)),
    ([[2, 1], [0, -1], [-3, 0]], (3,), (3, 4)),
    ([4, 1], (2,), (5,)),
]
"""Indices, the shape of the updates, and the shape of the result."""

TEST_ROWS = [
    *(
        Row(
            scatter.scatter_nd,
            lambda i, u, s=shape: scatter_add(i, u, s),
            [fixed_values(places, "int32"), arbitrary_numbers(*updates)],
            {"shape": shape},
            dtypes=ARITHMETIC_DTYPES,
        )
        for places, updates, shape in INDICES_AND_SHAPES
    ),
    Row(  # those for one place add up
        scatter.scatter_nd,
        lambda i, u: scatter_add(i, u, (3,)),
        [fixed_values([[1], [0], [1], [1]], "int32"), arbitrary_numbers(4)],
        {"shape": (3,)},
        dtypes=ARITHMETIC_DTYPES,
        is_edge=True,
    ),
    *(
        Row(
            scatter.tensor_scatter_update,
            scatter_update,
            [arbitrary_numbers(*shape), fixed_values(places, "int32"), arbitrary_numbers(*updates)],
            dtypes=NUMBER_DTYPES,
        )
        for places, updates, shape in INDICES_AND_SHAPES
    ),
    *(
        Row(
            scatter.sparse_to_dense,
            lambda i, v, d, s=shape: scatter_update(np.full(s, d), i, np.broadcast_to(v, len(i))),
            [fixed_values(places, "int32"), arbitrary_numbers(*values), arbitrary_numbers()],
            {"output_shape": shape},
            dtypes=NUMBER_DTYPES,
        )
        for places, values, shape in [
            ([3, 0], (2,), (5,)),
            ([[0, 1], [2, 2]], (2,), (3, 4)),
            ([[0, 1], [2, 2]], (), (3, 4)),
        ]
    ),
]
