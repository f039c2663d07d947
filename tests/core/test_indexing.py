"""``x[key]`` against NumPy, and what it refuses."""

import numpy as np
import pytest

import plugrad
from families.case import Case, ErrorCase
from families.domains import uniform
from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    BackendMismatch,
    DTypeError,
    TensorIndexError,
)

SHAPE = (3, 4, 5)
CUBE = np.arange(60, dtype="int32").reshape(SHAPE)
IS_EVEN = CUBE % 2 == 0
ROW_MASK = np.array([True, False, True])
ALL, NO_ROWS = slice(None), np.zeros(0, "int32")

BASIC_KEYS = [
    0, -1, (1, 2), (1, 2, 3), (-1, -2, -3), slice(None), slice(1, None), slice(None, -1), slice(None, None, 2),
    slice(None, None, -1), slice(2, 0, -1), slice(5, 9), slice(-9, 2), slice(1, 1), slice(0, 3, 7),
    (ALL, 1), (ALL, slice(1, 3), -1), Ellipsis, (Ellipsis, 0), (0, Ellipsis), (0, Ellipsis, 1),
    (Ellipsis, slice(None, None, -2)), None, (None, 0), (ALL, None, 2), (Ellipsis, None), (0, None, None, 1),
    (1, 2, 3, None), (slice(2, None, -2), slice(None, None, -1), slice(4, None, -3)), (), (1, 2, 3, Ellipsis),
    np.int64(1), (np.int32(-1), ALL), np.array(2), (np.uint8(1), np.array(-1)), (slice(3, 0, -2), slice(-3, None)),
]  # fmt: skip
INTEGER_KEYS = [
    [2, 0, 2], [], [[0], [2]], np.array([[0, 1], [2, 2]]), np.array([-1, -3], "int8"), (ALL, [1, 3]),
    (ALL, ALL, [4, 0, 4]), (slice(1, None), [0, -2]), (Ellipsis, [0, 1]), (slice(None, None, -1), NO_ROWS),
    (slice(1, 3), ALL, [[0, 4], [1, 1]]), ((0, 1), ALL), (None, [0, 1]), ([0, 1], None), (np.array([2], "uint8"),),
    # several arrays broadcast together
    ([0, 2], [1, 3]), ([0, 2], [1, -1], [4, 0]), ([[0], [2]], [1, 3]), ([0, 2], ALL, [1, 3]), (ALL, [0, 2], [1, 3]),
    (ALL, [[0], [2]], [1, 3, 0]), ([0, 1], [0]), ([0, 2], slice(1, 3), [[1], [3]]), ([0, 2], Ellipsis, [1, 3]),
    (NO_ROWS, [1]), ([0, 2], NO_ROWS[:, None]), ([0, 2], slice(2, 2), [1, 3]),
    # an integer beside an array counts as one
    (1, [0, 3]), (1, ALL, [0, 3]), ([0, 2], 1), ([0, 2], ALL, 1), (1, 2, [0, 4]), (1, [0, 3], -1), (0, None, [0, 3]),
    (slice(None, None, -2), 1, [0, 3]), (1, Ellipsis, [0, 3]), ([0, 2], 1, ALL), (np.array(1), ALL, [0, 3]),
    # a new axis or an ellipsis stands between
    ([0, 2], None, [1, 3]), (None, [0, 2], [1, 3]), ([0, 2], [1, 3], None), (ALL, [0, 2], None, [1, 3]),
    ([0, 2], [1, 3], Ellipsis, [0, 4]), (ALL, [0, 2], Ellipsis, [1, 3]),
]  # fmt: skip
MASK_KEYS = [
    ROW_MASK, ROW_MASK.tolist(), [False] * 3, IS_EVEN, IS_EVEN & False, CUBE > -1, (ALL, IS_EVEN[0]),
    (ALL, IS_EVEN[0, :, 0]),
    (Ellipsis, IS_EVEN[0, 0]), IS_EVEN[:, :, 0], (0, IS_EVEN[0]), (IS_EVEN[:, :, 0], 0),
    (IS_EVEN[:, :, 0], slice(1, None, 2)),
    (ROW_MASK, [1, 2]), (ROW_MASK, ALL, [1, 2]), ([[0], [1]], IS_EVEN[0, :, 0]), (ALL, [0], IS_EVEN[0, 0]),
    (ROW_MASK, None),
    (ROW_MASK, IS_EVEN[0, :, 0], 0), (1, ALL, IS_EVEN[0, 0]), (CUBE[:, :, 0] % 25 == 0, IS_EVEN[0, 0]),
    True, False, np.True_, np.array(False), (True, 0), (ALL, True), (True, [0, 1]), ([0, 1], ALL, True),
    (False, NO_ROWS),
    (0, ALL, True), (True, True), (None, True), (ALL, True, [0, 1]),
    # NumPy takes masks without elements for any axis
    np.zeros(0, bool), (ALL, np.zeros(0, bool)), np.zeros((3, 0), bool), np.zeros((0, 0, 5), bool),
]  # fmt: skip
SHAPES_AND_KEYS_OF_SMALL_ARRAYS = [  # shape, key
    ((), ()), ((), Ellipsis), ((), None), ((), True), ((), np.array(False)), ((), (None, True)),
    ((0,), ALL), ((0,), NO_ROWS), ((0,), np.zeros(0, bool)), ((0, 3), (ALL, [0, 2])), ((0, 3), (NO_ROWS, 1)),
    ((3, 0), [0, 2]),
    ((3, 0), np.zeros((3, 0), bool)), ((3, 0), ROW_MASK), ((0, 3), (ALL, -1)), ((2, 0, 3), (ALL, NO_ROWS, [0])),
    ((1,), [0, 0, 0]), ((1, 1), ([0, 0], [-1])), ((4,), np.array([[3, 1]])),
]  # fmt: skip
ALL_SHAPES_AND_KEYS = [
    *((SHAPE, key) for key in (*BASIC_KEYS, *INTEGER_KEYS, *MASK_KEYS)),
    *SHAPES_AND_KEYS_OF_SMALL_ARRAYS,
]


def parameter_id(value):
    return str(value).replace("\n", "").replace(" ", "")[:70]


def make_indexing(shape, key):
    def pick(x):
        return x[key]

    return Case(pick, pick, [uniform(-3, 3)], [shape])


@pytest.mark.rows(("shape", "key"), ALL_SHAPES_AND_KEYS, ids=parameter_id)
def test_indexing_matches_numpy(shape, key, backend):
    host = np.arange(np.prod(shape), dtype="int32").reshape(shape)
    actual = plugrad.asarray(host)[key]
    expected = host[key]
    assert (actual.shape, actual.dtype) == (expected.shape, "int32")
    np.testing.assert_array_equal(actual.numpy(), expected)


@pytest.mark.rows(("shape", "key"), ALL_SHAPES_AND_KEYS, ids=parameter_id)
def test_gradient_of_indexing(shape, key, backend, rng):
    make_indexing(shape, key).check_gradient(rng, backend)


@pytest.mark.parametrize(
    "key",
    [INTEGER_KEYS[0], INTEGER_KEYS[20], IS_EVEN, (ALL, IS_EVEN[0])],
    ids=parameter_id,
)
@pytest.mark.parametrize("dtype", ["float32", "bool", "uint8", "float64", "complex64"])
def test_indexing_in_other_dtypes(key, dtype, backend):
    if dtype not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no {dtype}")
    host = (CUBE % 7).astype(dtype)
    np.testing.assert_array_equal(plugrad.asarray(host)[key].numpy(), host[key])


def tensor_from_key_part(part):
    array = np.asarray(part)
    return plugrad.asarray(array if array.dtype == bool else array.astype("int32"))


@pytest.mark.rows("key", [*INTEGER_KEYS, *MASK_KEYS], ids=parameter_id)
def test_tensors_work_as_indices(key, backend):
    parts = key if isinstance(key, tuple) else (key,)
    arrays = (list, tuple, np.ndarray)
    tensors = tuple(
        tensor_from_key_part(part) if isinstance(part, arrays) else part for part in parts
    )
    np.testing.assert_array_equal(plugrad.asarray(CUBE)[tensors].numpy(), CUBE[key])


def test_keys_may_mix_tensors_and_arrays(backend):
    x, labels = plugrad.asarray(CUBE), plugrad.asarray(np.array([3, -1, 0], "int32"))
    np.testing.assert_array_equal(x[np.arange(3), labels].numpy(), CUBE[range(3), [3, -1, 0]])
    np.testing.assert_array_equal(x[[[0], [1]], labels].numpy(), CUBE[[[0], [1]], [3, -1, 0]])
    np.testing.assert_array_equal(x[labels[2], labels].numpy(), CUBE[0, [3, -1, 0]])
    scores = plugrad.asarray(CUBE[0].astype("float32"))
    gradient = plugrad.grad(lambda s: plugrad.sum(s[np.arange(3), labels]))(scores)
    expected = np.zeros((4, 5), "float32")
    expected[[0, 1, 2], [3, -1, 0]] = 1
    np.testing.assert_array_equal(gradient.numpy(), expected)


def test_integer_tensors_work_as_python_integers():
    assert CUBE.tolist()[plugrad.asarray(1)] == CUBE[1].tolist()


def test_range_is_an_array_of_positions(backend):
    x = plugrad.asarray(CUBE)
    np.testing.assert_array_equal(x[range(2)].numpy(), CUBE[[0, 1]])
    np.testing.assert_array_equal(x[:, range(2), range(2)].numpy(), CUBE[:, [0, 1], [0, 1]])


def test_gradient_of_an_element_indexed_repeatedly(backend):
    x = plugrad.zeros((3, 3))
    gradient = plugrad.grad(lambda x: plugrad.sum(x[[0, 0, -3, 2], [1, 1, 1, -1]]))(x)
    assert gradient.tolist() == [[0, 3, 0], [0, 0, 0], [0, 0, 1]]


def test_gradient_skips_out_of_range_indices_that_the_device_did_not_check(backend):
    """The cpu raises; a device that does not check indices returns zeros, which have no gradient."""
    x, far = plugrad.ones((3, 4)), plugrad.asarray(np.array([0, 3, -4, 2**30], "int32"))
    if backend == "cpu":
        with pytest.raises(TensorIndexError, match="index 3 is out of range for axis 0 of size 3"):
            x[far]
        with pytest.raises(TensorIndexError, match="index -4 is out of range for axis 0 of size 3"):
            x[far[2:], 0]
        with pytest.raises(TensorIndexError, match=r"index 1073741824 .* axis 1 of size 4"):
            x[0, far[::3]]
        return
    assert x[far, 1].tolist() == [1, 0, 0, 0]
    assert x[far, [1, 1, 1, 1]].tolist() == [1, 0, 0, 0]
    for index in (lambda x: x[far, 1], lambda x: x[far, [1, 1, 1, 1]]):
        gradient = plugrad.grad(lambda x: plugrad.sum(index(x)))(x)  # noqa: B023
        assert gradient.tolist() == [[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]


def test_arrays_of_other_libraries_are_indices(backend):
    class ForeignArray:
        def __array__(self, dtype=None, copy=None):
            return np.array([2, 0])

    np.testing.assert_array_equal(plugrad.asarray(CUBE)[:, ForeignArray()].numpy(), CUBE[:, [2, 0]])


def test_indices_on_another_backend_are_refused(backend):
    if backend == "cpu":
        pytest.skip("this is about tensors of the cpu")
    x, there = plugrad.asarray(CUBE), plugrad.asarray([0, 1], device="cpu")
    for key in (there, (there, [0, 1]), (plugrad.asarray([0, 1]), there)):
        with pytest.raises(BackendMismatch, match=f"{backend}:0"):
            x[key]


def cube_tensor():
    return plugrad.asarray(CUBE)


INVALID_KEYS = [
    ErrorCase(lambda: cube_tensor()[3], TensorIndexError, ["index 3", "axis 0", "size 3"]),
    ErrorCase(lambda: cube_tensor()[-4], TensorIndexError, ["index -4", "axis 0", "size 3"]),
    ErrorCase(lambda: cube_tensor()[0, 4], TensorIndexError, ["index 4", "axis 1", "size 4"]),
    ErrorCase(lambda: cube_tensor()[[5]], TensorIndexError, ["index 5", "axis 0", "size 3"]),
    ErrorCase(
        lambda: cube_tensor()[0, :, [1, -6]], TensorIndexError, ["index -6", "axis 2", "size 5"]
    ),
    ErrorCase(
        lambda: cube_tensor()[[0], np.array([2**40])],
        TensorIndexError,
        ["index 1099511627776", "axis 1"],
    ),
    ErrorCase(
        lambda: cube_tensor()[..., [0], [7]], TensorIndexError, ["index 7", "axis 2", "size 5"]
    ),
    ErrorCase(
        lambda: cube_tensor()[0, 0, 0, 0], TensorIndexError, ["4 indices", "3 axes", "(3, 4, 5)"]
    ),
    ErrorCase(
        lambda: cube_tensor()[IS_EVEN, 0],
        TensorIndexError,
        ["4 indices", "3 axes", "(3, 4, 5)"],
    ),
    ErrorCase(lambda: cube_tensor()[..., ...], TensorIndexError, ["one ellipsis"]),
    ErrorCase(
        lambda: cube_tensor()[1.0], TensorIndexError, ["1.0 is not an index", "integers, slices"]
    ),
    ErrorCase(
        lambda: cube_tensor()["a"], TensorIndexError, ["'a' is not an index", "arrays of integers"]
    ),
    ErrorCase(lambda: cube_tensor()[0, {}], TensorIndexError, ["{} is not an index"]),
    ErrorCase(lambda: cube_tensor()[[0.5]], DTypeError, ["float32", "integers", "bools"]),
    ErrorCase(lambda: cube_tensor()[np.zeros(0, "float32")], DTypeError, ["float32", "integers"]),
    ErrorCase(
        lambda: cube_tensor()[plugrad.asarray(1.0)], DTypeError, ["float32", "integers", "int32"]
    ),
    ErrorCase(
        lambda: cube_tensor()[[plugrad.asarray(1)]], ArgumentError, ["tensors in it", "stack"]
    ),
    ErrorCase(
        lambda: cube_tensor()[ROW_MASK[:2]], TensorIndexError, ["(2,)", "axes from 0", "(3, 4, 5)"]
    ),
    ErrorCase(
        lambda: cube_tensor()[:, IS_EVEN[:, :, 0]],
        TensorIndexError,
        ["(3, 4)", "axes from 1"],
    ),
    ErrorCase(
        lambda: cube_tensor()[[0, 1], [0, 1, 2]],
        TensorIndexError,
        ["(2,)", "(3,)", "do not broadcast"],
    ),
    ErrorCase(lambda: cube_tensor()[False, [0, 1]], TensorIndexError, ["(0,)", "(2,)"]),
    ErrorCase(lambda: cube_tensor()[::0], ArgumentValueError, ["step other than 0"]),
]


@pytest.mark.rows("error_case", INVALID_KEYS, ids=str)
def test_errors_of_invalid_indices(error_case, backend):
    error_case.check()


@pytest.mark.parametrize("key", [2, -1, (1, slice(2, 4)), (ALL, 3, -1), (Ellipsis, 0)])
def test_keys_of_integers_and_slices_call_one_kernel(key):
    x = plugrad.asarray(CUBE.astype("float32"))
    x = plugrad.concat([x, x])
    with plugrad.profile() as measured:
        y = x[key]
    assert [kernel.calls for kernel in measured.kernels] == [1]
    np.testing.assert_array_equal(y.numpy(), np.concatenate([CUBE, CUBE])[key])


def test_equal_keys_of_different_types_are_distinguished():
    x = plugrad.asarray(CUBE)
    np.testing.assert_array_equal(x[1].numpy(), CUBE[1])
    np.testing.assert_array_equal(x[True].numpy(), CUBE[True])
    np.testing.assert_array_equal(x[0:2].numpy(), CUBE[0:2])
    with pytest.raises(TensorIndexError, match="integers or None"):
        x[0.0:2.0]
    with pytest.raises(plugrad.errors.ShapeError, match="must be integers"):
        plugrad.reshape(plugrad.reshape(x, (5, 12)), (5.0, 12.0))
