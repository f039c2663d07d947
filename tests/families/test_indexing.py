"""Elements picked by position."""

import numpy as np
import pytest

import plugrad
from families.case import EVERYTHING, REALS, VIEWS, Case, Refusal
from families.domains import different, uniform, whole
from plugrad.errors import ArgumentValueError, AxisError, DTypeError, ShapeError, TensorIndexError
from plugrad.kernels import indexing


def np_gather(x, indices, *, axis, batch_dims):
    """Return, batch by batch, what np.take gives."""
    if batch_dims == 0:
        return np.take(x, indices, axis)
    parts = [
        np_gather(rows, ids, axis=axis - 1, batch_dims=batch_dims - 1)
        for rows, ids in zip(x, indices, strict=True)
    ]
    return np.stack(parts)


def np_one_hot(indices, *, depth, on_value=1, off_value=0, dtype="float32"):
    result = np.full((*indices.shape, depth), off_value, dtype)
    for place in np.ndindex(indices.shape):
        if 0 <= indices[place] < depth:
            result[(*place, indices[place])] = on_value
    return result


def np_segment_sum(x, segment_ids, *, num_segments):
    result = np.zeros((num_segments, *x.shape[segment_ids.ndim :]), x.dtype)
    for place in np.ndindex(segment_ids.shape):
        if 0 <= segment_ids[place] < num_segments:
            result[segment_ids[place]] += x[place]
    return result


TAKEN = [
    Case(
        plugrad.take,
        np.take,
        [uniform(-3, 3), whole(0, 2)],
        [shape, ids],
        {"axis": axis},
        EVERYTHING,
    )
    for shape, ids, axis in [
        ((3,), (5,), 0),
        ((3, 5), (4,), 0),
        ((5, 3), (4,), 1),
        ((5, 3), (2, 7), -1),
        ((2, 3, 4), (5,), 1),
        ((2, 3, 4), (2, 2), 1),
        ((3, 4), (), 0),
        ((3, 4), (0,), 0),
    ]
]
GATHERED = [
    Case(
        indexing.gather,
        np_gather,
        *([uniform(-3, 3), whole(0, 2)], [shape, ids], {"axis": axis, "batch_dims": dims}),
        EVERYTHING,
    )
    for shape, ids, axis, dims in [
        ((4, 3), (4, 2), 1, 1),
        ((4, 3, 5), (4, 2), 1, 1),
        ((4, 5, 3), (4, 2, 2), 2, 1),
        ((2, 4, 3), (2, 4, 5), 2, 2),
        ((2, 4, 3), (2, 4), 2, 2),
        ((3, 4), (2, 5), 0, 0),
    ]
]
HOT = [
    Case(plugrad.one_hot, np_one_hot, [whole(-1, 5)], [shape], attrs, ("int32",), result)
    for shape, attrs, result in [
        ((7,), {"depth": 4}, "float32"),
        ((), {"depth": 4}, "float32"),
        ((2, 3), {"depth": 5, "on_value": 2.5, "off_value": -1.5}, "float32"),
        ((2, 3), {"depth": 5, "on_value": 7, "off_value": 3, "dtype": "int32"}, "int32"),
        ((2, 3), {"depth": 5, "on_value": True, "off_value": False, "dtype": "bool"}, "bool"),
        ((7,), {"depth": 0}, "float32"),
        ((0, 2), {"depth": 3}, "float32"),
    ]
]
SUMMED = [
    Case(
        plugrad.unsorted_segment_sum,
        np_segment_sum,
        *([uniform(-3, 3), whole(-1, 4)], [shape, ids], {"num_segments": count}, REALS),
    )
    for shape, ids, count in [
        ((7,), (7,), 4),
        ((7, 5), (7,), 3),
        ((2, 3, 5), (2, 3), 4),
        ((2, 3), (2, 3), 6),
        ((7, 2), (7,), 0),
        ((0, 2), (0,), 3),
        ((5, 0), (5,), 3),
    ]
]
CASES = [*TAKEN, *GATHERED, *SUMMED]


def label(case):
    return f"{case} {' '.join(map(str, case.shapes))}".replace(", ", ",")


@pytest.mark.parametrize("case", [*CASES, *HOT], ids=label)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint32"])
@pytest.mark.parametrize("case", [TAKEN[1], HOT[0], SUMMED[1]], ids=str)
def test_positions_of_other_dtypes(case, dtype, backend, rng):
    if dtype not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no {dtype}")
    *others, positions = case.drawn(rng, "float32")
    case.check_values_of([*others, np.abs(positions).astype(dtype)])


@pytest.mark.parametrize("layout", VIEWS)
@pytest.mark.parametrize("case", [*CASES, *HOT], ids=label)
def test_values_of_views(case, layout, backend, rng):
    case.check_values(rng, layout=layout)


def test_many_elements(backend, rng):
    numbers, rows = uniform(-2, 2), whole(0, 262)
    Case(plugrad.take, np.take, [numbers, rows], [(263, 251), (270,)], {"axis": 0}).check_values(
        rng
    )
    Case(plugrad.take, np.take, [numbers, rows], [(251, 263), (270,)], {"axis": 1}).check_values(
        rng
    )
    Case(plugrad.one_hot, np_one_hot, [rows], [(257,)], {"depth": 263}).check_values(rng)
    Case(
        plugrad.unsorted_segment_sum,
        np_segment_sum,
        *([numbers, rows], [(1031, 67), (1031,)], {"num_segments": 263}),
        is_sum=True,
    ).check_values(rng)


def test_special_values_are_taken(backend):
    x = np.array([np.nan, np.inf, -np.inf, 1], "float32")
    Case(plugrad.take, np.take, []).check_values_of([x, np.array([[2], [0], [1], [1]], "int32")])


def test_nan_stays_in_its_segment(backend):
    x = plugrad.asarray([np.nan, 1, np.inf, 2])
    sums = plugrad.unsorted_segment_sum(x, [0, 1, 2, 1], 3).tolist()
    assert np.isnan(sums[0])
    assert sums[1:] == [3, np.inf]


KEYS = [
    (0,),
    (-1,),
    (1, 2),
    (1, -2, 3),
    (slice(None), 2),
    (slice(1, 3), slice(None, None, 2)),
    (slice(None, None, -1),),
    (slice(3, 0, -2), slice(-3, None)),
    (Ellipsis, 1),
    (1, Ellipsis, slice(1, 3)),
    (None, 1, None, slice(2)),
    (Ellipsis, None),
    (slice(5, 2),),
    (slice(2, 2), 1),
    ([2, 0, 2],),
    (slice(None), [1, 3]),
    (slice(1, 3), slice(None), [[0, 4], [1, 1]]),
    (Ellipsis,),
    (),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_index(key, backend, rng):
    def reference(x):
        return x[key]

    case = Case(reference, reference, [uniform(-3, 3)], [(4, 5, 6)])
    case.check_values(rng)
    case.with_shapes((4, 4, 5)).check_gradient(rng, backend)


def test_an_axis_of_positions_stays_in_its_place(backend):
    """NumPy would move it to the front, as it does with integers beside arrays."""
    x = plugrad.reshape(plugrad.arange(24), (2, 3, 4))
    assert x[1, :, [0, 3]].tolist() == [[12, 15], [16, 19], [20, 23]]


@pytest.mark.parametrize("case", CASES, ids=label)
def test_gradient(case, backend, rng):
    case.check_gradient(rng, backend)


def test_gradient_of_positions_taken_often(backend):
    x = plugrad.asarray([1.0, 2.0, 3.0])
    taken = plugrad.grad(lambda x: plugrad.take(x, [0, 2, 2, 2]))(x)
    assert taken.tolist() == [1, 0, 3]


def test_gradient_of_large_tensors(backend, rng):
    x = different().draw(rng, (263, 251), "float32")
    positions = rng.integers(0, 263, 300, "int32")
    gradient = plugrad.grad(lambda x: plugrad.take(x, positions, axis=0))(plugrad.asarray(x))
    counts = np.bincount(positions, minlength=263)
    np.testing.assert_array_equal(gradient.numpy(), np.broadcast_to(counts[:, None], x.shape))


def numbers(*shape):
    return plugrad.ones(shape)


REFUSALS = [
    Refusal(lambda: plugrad.take([1.0], [0.5]), DTypeError, ["take", "float32", "int32"]),
    Refusal(lambda: plugrad.take(numbers(2, 3), [0], axis=2), AxisError, ["axis=2", "rank 2"]),
    Refusal(lambda: plugrad.take(numbers(2, 3), [0]), AxisError, ["axis"]),
    Refusal(lambda: plugrad.one_hot([0.5], 3), DTypeError, ["one_hot", "float32", "int32"]),
    Refusal(
        lambda: plugrad.one_hot([0], -1), ArgumentValueError, ["OneHot", "depth=-1", "0 or more"]
    ),
    Refusal(
        lambda: plugrad.unsorted_segment_sum(numbers(3, 2), [0, 1], 2),
        ShapeError,
        ["UnsortedSegmentSum", "(2,)", "(3, 2)"],
    ),
    Refusal(
        lambda: plugrad.unsorted_segment_sum(numbers(2), [0, 1], -2),
        ArgumentValueError,
        ["num_segments=-2", "0 or more"],
    ),
    Refusal(
        lambda: indexing.gather(
            numbers(2, 3), plugrad.zeros((3, 2), dtype="int32"), axis=1, batch_dims=1
        ),
        ShapeError,
        ["GatherV2", "batch_dims=1", "(2, 3)", "(3, 2)"],
    ),
    Refusal(lambda: numbers(2, 3)[2], TensorIndexError, ["index 2", "axis 0", "size 2"]),
    Refusal(lambda: numbers(2, 3)[0, 0, 0], TensorIndexError, ["3 indices", "2 axes", "(2, 3)"]),
    Refusal(lambda: numbers(2)[..., ...], TensorIndexError, ["one ellipsis"]),
    Refusal(lambda: numbers(2)["one"], TensorIndexError, ["'one'", "integers", "slices"]),
    Refusal(lambda: numbers(2)[True], TensorIndexError, ["bool", "integers"]),
    Refusal(lambda: numbers(2)[[True, False]], TensorIndexError, ["bool", "where"]),
    Refusal(lambda: numbers(2)[1.0], TensorIndexError, ["1.0", "integers"]),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_bad_input(refusal, backend):
    refusal.check()


def test_positions_out_of_range(backend):
    """The cpu raises; a backend that looks at the positions on its device reads zeros instead."""
    if backend == "cpu":
        with pytest.raises(TensorIndexError, match="index 3 is out of range for axis 0 of size 3"):
            plugrad.take([1.0, 2.0, 3.0], [0, 3])
    else:
        assert plugrad.take([1.0, 2.0, 3.0], [3, -1, 1, 2**30]).tolist() == [0, 0, 2, 0]
