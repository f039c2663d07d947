"""Positions in order, against NumPy: radix sort, insertion, selection, and keys of every dtype."""

import numpy as np
import pytest

FLOAT_DTYPES = ["float16", "float32", "float64"]
INTEGER_DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
SPECIAL_VALUES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0]


def rows_with_ties(rng, dtype, length):
    """Return two rows with many equal elements, and with all special values."""
    if dtype == "complex64":
        real, imaginary = (
            rows_with_ties(rng, "float32", length),
            rows_with_ties(rng, "float32", length)[:, ::-1],
        )
        return np.stack([real, imaginary], -1).view(np.complex64)[..., 0]
    if dtype == "bool":
        return rng.random((2, length)) < 0.5
    if dtype in INTEGER_DTYPES:
        limits = np.iinfo(dtype)
        x = rng.integers(limits.min, limits.max, (2, length), dtype, endpoint=True)
    else:
        scales = rng.choice([1, 1e-3, 1e3], (2, length))
        x = (rng.standard_normal((2, length)) * scales).astype(dtype)
        is_special = rng.random((2, length)) < 0.3
        x[is_special] = rng.choice(SPECIAL_VALUES, is_special.sum())
    x[:, ::3] = x[:, :1]
    return x


def reference_argsort(x, axis, descending):
    if not descending:
        return np.argsort(x, axis, stable=True)
    return x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, stable=True), axis)


@pytest.mark.parametrize("dtype", ["bool", "complex64", *FLOAT_DTYPES, *INTEGER_DTYPES])
@pytest.mark.parametrize("length", [0, 1, 32, 33, 3000])
def test_positions_in_order(run, rng, dtype, length):
    x = rows_with_ties(rng, dtype, length)
    for descending in (False, True):
        for data, axis in ((x, 1), (np.ascontiguousarray(x.T), 0)):
            actual = run("ArgSort", data, axis=axis, descending=descending, stable=True)
            np.testing.assert_array_equal(actual, reference_argsort(data, axis, descending))


@pytest.mark.parametrize("dtype", ["bool", *FLOAT_DTYPES, *INTEGER_DTYPES])
@pytest.mark.parametrize("length", [1, 33, 3000])
def test_largest_elements(run, rng, dtype, length):
    x = rows_with_ties(rng, dtype, length)
    for k in {0, 1, length // 3, length}:
        for is_sorted in (True, False):
            places = reference_argsort(x, 1, descending=True)[:, :k]
            places = places if is_sorted else np.sort(places)
            found = run.functions["TopK"](run.put(x), k=k, sorted=is_sorted)
            np.testing.assert_array_equal(run.get(found[1]), places)
            np.testing.assert_array_equal(run.get(found[0]), np.take_along_axis(x, places, 1))


@pytest.mark.parametrize("dtype", ["bool", "complex64", *FLOAT_DTYPES, *INTEGER_DTYPES])
@pytest.mark.parametrize("length", [0, 1, 33, 3000])
def test_places_of_values_in_sorted_rows(run, rng, dtype, length):
    sequences = np.sort(rows_with_ties(rng, dtype, length), -1)
    wanted = np.concatenate([rows_with_ties(rng, dtype, 50), sequences[:, :50]], -1)
    for side in ("left", "right"):
        places = [np.searchsorted(*pair, side) for pair in zip(sequences, wanted, strict=True)]
        actual = run("SearchSorted", sequences, wanted, side=side)
        np.testing.assert_array_equal(actual, np.int32(places))
    np.testing.assert_array_equal(run("UpperBound", sequences, wanted), np.int32(places))
    assert run("LowerBound", sequences, wanted[:, :0]).shape == (2, 0)
