"""Indexing against NumPy, and what it refuses."""

import numpy as np
import pytest

import plugrad
from plugrad.errors import TensorIndexError


def same(actual, expected):
    """Return whether a tensor has exactly these values, this shape and this dtype."""
    y = actual.numpy()
    return y.shape == expected.shape and y.dtype == expected.dtype and np.array_equal(y, expected)


CUBE = np.arange(60).reshape(3, 4, 5)
KEYS = [
    0, -1, (1, 2), (1, 2, 3), (-1, -2, -3), slice(None), slice(1, None), slice(None, -1), slice(None, None, 2),
    slice(None, None, -1), slice(2, 0, -1), slice(5, 9), slice(-9, 2), slice(1, 1), slice(0, 3, 7),
    (slice(None), 1), (slice(None), slice(1, 3), -1), Ellipsis, (Ellipsis, 0), (0, Ellipsis), (0, Ellipsis, 1),
    (Ellipsis, slice(None, None, -2)), None, (None, 0), (slice(None), None, 2), (Ellipsis, None), (0, None, None, 1),
    (1, 2, 3, None), (slice(2, None, -2), slice(None, None, -1), slice(4, None, -3)), (), (1, 2, 3, Ellipsis),
    np.int64(1), (np.int32(-1), slice(None)),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_index_is_numpys(key):
    x = plugrad.asarray(CUBE)
    assert same(x[key], np.asarray(CUBE[key]))


@pytest.mark.parametrize(
    "key",
    [
        [2, 0],
        np.array([[0, 1], [2, 2]]),
        (slice(None), [1, 3]),
        (slice(None), slice(None), np.array([4, 0, 4])),
        (slice(1, None), [0, 2]),
        (Ellipsis, [0, 1]),
        range(2),
        (slice(None, None, -1), np.array([], "int64")),
    ],
    ids=str,
)
def test_one_array_of_positions_is_numpys(key):
    listed = (
        tuple(list(k) if isinstance(k, range) else k for k in key)
        if isinstance(key, tuple)
        else key
    )
    host = CUBE[list(listed) if isinstance(listed, range) else listed]
    x = plugrad.asarray(CUBE)
    assert same(x[key], host)


def test_tensors_are_positions_too():
    x = plugrad.asarray(CUBE)
    assert same(x[plugrad.asarray([2, 0])], CUBE[[2, 0]])
    assert same(x[plugrad.asarray(1)], CUBE[1])
    assert CUBE.tolist()[plugrad.asarray(1)] == CUBE[1].tolist()


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (3, "index 3 is out of range for axis 0 of size 3"),
        (-4, "index -4 is out of range for axis 0 of size 3"),
        ((0, 4), "index 4 is out of range for axis 1 of size 4"),
        ((0, 0, 0, 0), r"4 indices for a tensor with 3 axes \(shape \(3, 4, 5\)\)"),
        ((Ellipsis, Ellipsis), "one ellipsis"),
        (1.0, "1.0 is not an index; use integers, slices"),
        ("a", "'a' is not an index"),
        (True, "a bool is not an index"),
        (np.array([True, False, True]), "bool array is not taken as an index; use where, or take"),
        (([0], [0]), "only one array of positions"),
        ([5], "index 5 is out of range for axis 0 of size 3"),
        (plugrad.asarray(1.0), "is not an index"),
    ],
    ids=str,
)
def test_wrong_index_is_named(key, message):
    with pytest.raises(TensorIndexError, match=message):
        plugrad.asarray(CUBE)[key]


def test_slice_of_stride_zero_is_refused():
    with pytest.raises(ValueError, match="zero"):
        plugrad.asarray(CUBE)[::0]


def test_positions_must_be_whole_numbers():
    with pytest.raises(TypeError, match="indices are float32; they must be integers"):
        plugrad.asarray(CUBE)[[0.5]]
