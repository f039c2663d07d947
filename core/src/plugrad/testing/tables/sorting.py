"""Test rows of sorting and searching."""

# What references take is an array, which a lambda has no place to say.
# pyright: basic

from dataclasses import replace

import numpy as np

from plugrad.kernels import sorting
from plugrad.testing.rows import (
    ARITHMETIC_DTYPES,
    FLOATING_DTYPES,
    NUMBER_DTYPES,
    Array,
    Input,
    Row,
    distinct_numbers,
    fixed_values,
    integers,
    numbers,
)

NAN, INF = np.nan, np.inf
SPECIAL_NUMBERS = [[2, NAN, -INF, 0, INF, 2, NAN], [-0.0, 0, 1, -1, -0.0, 0, 1]]
"""Rows with NaN, infinities, zeros and ties."""
REAL_DTYPES = tuple(n for n in NUMBER_DTYPES if "complex" not in n)


def ascending_numbers(*shape: int) -> Input:
    """Return an input of numbers that ascend along the last axis."""
    inner = numbers(-4, 4, shape=shape)
    return replace(inner, draw=lambda *given: np.sort(inner.draw(*given)))


def stable_argsort(x: Array, axis: int, descending: bool) -> Array:
    """Return the indices of a stable sort along an axis; ties keep their original order, also when descending."""
    if not descending:
        return np.argsort(x, axis, stable=True)
    n = x.shape[axis]
    return n - 1 - np.flip(np.argsort(np.flip(x, axis), axis, stable=True), axis)


def top_k(x: Array, k: int) -> list[Array]:
    """Return the k largest elements of each row, and their indices."""
    places = stable_argsort(x, -1, descending=True)[..., :k]
    return [np.take_along_axis(x, places, -1), places]


def search_rows(rows: Array, values: Array, side: str) -> Array:
    """Return for each value the index at which it belongs in its sorted row."""
    found = [
        np.searchsorted(row, value, side)  # type: ignore[call-overload]
        for row, value in zip(
            rows.reshape(-1, rows.shape[-1]), values.reshape(-1, values.shape[-1]), strict=True
        )
    ]
    return np.array(found).reshape(values.shape)


def unique_slices(x: Array, axis: int) -> list[Array]:
    """Return the distinct slices by first occurrence, and the index of each slice among them."""
    slices = list(np.moveaxis(x, axis, 0))
    first: list[int] = []
    inverse: list[int] = []
    for i, part in enumerate(slices):
        same = [n for n, j in enumerate(first) if np.array_equal(slices[j], part)]
        inverse.append(same[0] if same else len(first))
        first += [] if same else [i]
    return [np.take(x, first, axis), np.array(inverse, int)]


TEST_ROWS = [
    *(
        Row(
            sorting.sort,
            lambda x, a=axis, d=descending: np.take_along_axis(x, stable_argsort(x, a, d), a),
            [distinct_numbers(*shape)],
            {"axis": axis, "descending": descending},
            dtypes=REAL_DTYPES[1:],
        )
        for shape, axis in [((7,), 0), ((3, 6), 1), ((5, 2, 3), 0)]
        for descending in (False, True)
    ),
    Row(
        sorting.sort,
        lambda x: np.take_along_axis(x, stable_argsort(x, 1, descending=False), 1),
        [fixed_values(SPECIAL_NUMBERS)],
        {"axis": 1, "descending": False},
        dtypes=FLOATING_DTYPES,
        is_edge=True,
    ),
    *(
        Row(
            sorting.argsort,
            lambda x, a=axis, d=descending: stable_argsort(x, a, d),
            [integers(0, 4, *shape, dtype="int32") if has_ties else distinct_numbers(*shape)],
            {"axis": axis, "descending": descending, "stable": True},
            dtypes=["int32"] if has_ties else REAL_DTYPES[1:],
        )
        for shape, axis in [((7,), 0), ((3, 6), 1), ((5, 2, 3), 0)]
        for descending in (False, True)
        for has_ties in (False, True)
    ),
    *(
        Row(
            sorting.argsort,
            lambda x, d=descending: stable_argsort(x, 1, d),
            [fixed_values(SPECIAL_NUMBERS)],
            {"axis": 1, "descending": descending, "stable": True},
            dtypes=FLOATING_DTYPES,
            is_edge=True,
        )
        for descending in (False,)
    ),
    *(
        Row(
            sorting.top_k,
            lambda x, k=k: top_k(x, k),
            [distinct_numbers(*shape)],
            {"k": k, "sorted": True},
            dtypes=REAL_DTYPES[1:],
            is_edge=not k,
        )
        for shape, k in [((7,), 3), ((3, 6), 1), ((2, 2, 5), 5), ((3, 4), 0)]
    ),
    Row(  # of equal ones the first
        sorting.top_k,
        lambda x: top_k(x, 3),
        [integers(0, 2, 4, 6)],
        {"k": 3, "sorted": True},
        dtypes=["int32"],
        is_edge=True,
    ),
    *(
        Row(
            kernel,
            lambda x, y, s=side: search_rows(x, y, s),
            [ascending_numbers(*rows), numbers(-5, 5, shape=values)],
            attrs,
            dtypes=REAL_DTYPES,
        )
        for rows, values in [((9,), (5,)), ((2, 3, 4), (2, 3, 2))]
        for kernel, side, attrs in [
            (sorting.search_sorted, "left", {"side": "left"}),
            (sorting.search_sorted, "right", {"side": "right"}),
            (sorting.lower_bound, "left", {}),
            (sorting.upper_bound, "right", {}),
        ]
    ),
    *(
        Row(
            sorting.unique,
            lambda x, a=axis: unique_slices(x, a),
            [fixed_values(values)],
            {"axis": axis},
            dtypes=ARITHMETIC_DTYPES,
            is_smooth=len(values) == 4,  # a step would make equal slices differ
        )
        for values, axis in [
            ([3, 1, 3, 2, 1, 0], 0),
            ([3, 1, 2, 0], 0),
            ([[1, 0, 1], [0, 0, 0], [1, 0, 1]], 0),
            ([[1, 0, 1], [0, 0, 0], [1, 0, 1]], 1),
        ]
    ),
    Row(
        sorting.unique,
        lambda x: [np.array([NAN, 1, 0]), np.array([0, 1, 0, 2, 2])],
        [fixed_values([NAN, 1, NAN, 0, -0.0])],
        {"axis": 0},
        dtypes=FLOATING_DTYPES,
        is_edge=True,
        is_smooth=False,
    ),
]
