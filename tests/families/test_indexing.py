"""Elements selected by index: take, gather, masks, one-hot vectors and segment sums."""

import numpy as np
import pytest

import plugrad
from families.case import REAL_AND_BOOL_DTYPES, REAL_DTYPES, Case
from families.domains import Domain, bools, distinct, integers, uniform
from plugrad.kernels import indexing


def np_batched_take(x, indices, *, axis, batch_dims):
    """Return np.take of each example of a batch."""
    axis %= x.ndim
    batch_dims += indices.ndim if batch_dims < 0 else 0
    picked = indices.shape[batch_dims:]
    result = np.zeros((*x.shape[:axis], *picked, *x.shape[axis + 1 :]), x.dtype)
    for batch in np.ndindex(x.shape[:batch_dims]):
        result[batch] = np.take(x[batch], indices[batch], axis - batch_dims)
    return result


def np_take_along_axis(x, indices, *, axis=-1):
    """Return np.take_along_axis after the other axes are broadcast."""
    lines = list(np.broadcast_shapes(*(np.delete(y.shape, axis) for y in (x, indices))))
    place = axis % x.ndim
    full = [
        np.broadcast_to(y, [*lines[:place], y.shape[axis], *lines[place:]]) for y in (x, indices)
    ]
    return np.take_along_axis(*full, axis)


def np_gather_nd(x, indices):
    result = np.zeros((*indices.shape[:-1], *x.shape[indices.shape[-1] :]), x.dtype)
    for place in np.ndindex(indices.shape[:-1]):
        result[place] = x[tuple(indices[place])]
    return result


def np_boolean_mask(x, mask, *, axis=0):
    return x[(slice(None),) * axis + (mask,)]


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


TAKE_CASES = [
    Case(
        plugrad.take,
        np.take,
        [uniform(-3, 3), integers(-3, 2)],
        [shape, ids],
        {"axis": axis},
        REAL_AND_BOOL_DTYPES,
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
BATCHED_TAKE_CASES = [
    Case(
        plugrad.take,
        np_batched_take,
        *([uniform(-3, 3), integers(-3, 2)], [shape, ids], {"axis": axis, "batch_dims": dims}),
        REAL_AND_BOOL_DTYPES,
    )
    for shape, ids, axis, dims in [
        ((4, 3), (4, 2), 1, 1),
        ((4, 3, 5), (4, 2), 1, 1),
        ((4, 5, 3), (4, 2, 2), -1, 1),
        ((2, 4, 3), (2, 4, 5), 2, 2),
        ((2, 4, 3), (2, 4), 2, -1),
        ((3, 4), (2, 5), 0, 0),
        ((0, 3), (0, 2), 1, 1),
        ((2, 0, 3), (2, 4), 2, 1),
        ((2, 3, 0), (2, 4), 1, 1),
        ((2, 0), (2, 0), 1, 1),
    ]
]
TAKE_ALONG_AXIS_CASES = [
    Case(
        plugrad.take_along_axis,
        np_take_along_axis,
        *([uniform(-3, 3), integers(-3, 2)], [shape, ids], {"axis": axis}, REAL_AND_BOOL_DTYPES),
    )
    for shape, ids, axis in [
        ((3,), (5,), -1),
        ((4, 3), (4, 2), 1),
        ((3, 4), (5, 4), 0),
        ((2, 3, 4), (2, 5, 4), -2),
        ((3, 2, 4), (2, 1, 4), 0),  # the other axes broadcast, either way
        ((3, 1, 4), (2, 5, 1), 0),
        ((0, 3), (0, 2), 1),
        ((2, 3), (2, 0), 1),
    ]
]
GATHER_ND_CASES = [
    Case(
        plugrad.gather_nd,
        np_gather_nd,
        *([uniform(-3, 3), integers(-2, 1)], [shape, ids], {}, REAL_AND_BOOL_DTYPES),
    )
    for shape, ids in [
        ((3,), (5, 1)),
        ((2, 3), (4, 2)),
        ((2, 3, 4), (5, 1)),
        ((2, 3, 4), (2, 3, 2)),
        ((2, 3, 4), (3,)),
        ((2, 3), (4, 0)),  # no coordinates: the part is everything
        ((), (2, 0)),
        ((2, 3), (0, 2)),
        ((2, 0), (3, 1)),
    ]
]
WHERE_TRUE_CASES = [
    Case(
        indexing.where_true,
        np.argwhere,
        *([domain], [shape], {}, ("bool",), "int32"),
        is_differentiable=False,
        name="where_true",
    )
    for shape, domain in [
        ((7,), bools()),
        ((2, 3), bools()),
        ((2, 3, 4), bools()),
        ((0, 3), bools()),
        ((2, 3), Domain(lambda rng, shape, dtype: np.zeros(shape, bool), "bool")),
        ((), Domain(lambda rng, shape, dtype: np.ones(shape, bool), "bool")),
    ]
]
NONZERO_CASES = [
    Case(
        lambda x: list(plugrad.nonzero(x)),
        lambda x: list(np.nonzero(x)),
        *([uniform(-2, 2)], [shape], {}, REAL_AND_BOOL_DTYPES, "int32"),
        is_differentiable=False,
        name="nonzero",
    )
    for shape in [(7,), (3, 5), (2, 3, 4), (0, 2), (2, 0)]
]
BOOLEAN_MASK_CASES = [
    Case(
        plugrad.boolean_mask,
        np_boolean_mask,
        *([uniform(-3, 3), bools()], [shape, mask], attrs, REAL_AND_BOOL_DTYPES),
    )
    for shape, mask, attrs in [
        ((5,), (5,), {}),
        ((5, 3), (5,), {}),
        ((3, 5), (5,), {"axis": 1}),
        ((2, 3, 4), (2, 3), {}),
        ((2, 3, 4), (3, 4), {"axis": 1}),
        ((2, 3), (2, 3), {}),
        ((0, 3), (0,), {}),
    ]
]
ONE_HOT_CASES = [
    Case(plugrad.one_hot, np_one_hot, [integers(-1, 5)], [shape], attrs, ("int32",), result)
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
SEGMENT_SUM_CASES = [
    Case(
        plugrad.unsorted_segment_sum,
        np_segment_sum,
        *([uniform(-3, 3), integers(-1, 4)], [shape, ids], {"num_segments": count}, REAL_DTYPES),
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
CASES = [
    *TAKE_CASES,
    *BATCHED_TAKE_CASES,
    *TAKE_ALONG_AXIS_CASES,
    *GATHER_ND_CASES,
    *BOOLEAN_MASK_CASES,
    *SEGMENT_SUM_CASES,
]


def case_id(case):
    return f"{case} {' '.join(map(str, case.shapes))}".replace(", ", ",")


@pytest.mark.rows("case", [*CASES, *ONE_HOT_CASES, *WHERE_TRUE_CASES, *NONZERO_CASES], ids=case_id)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.rows("case", [*CASES, *NONZERO_CASES], ids=case_id)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint32"])
@pytest.mark.rows(
    "case",
    [
        TAKE_CASES[1],
        BATCHED_TAKE_CASES[0],
        TAKE_ALONG_AXIS_CASES[1],
        GATHER_ND_CASES[1],
        ONE_HOT_CASES[0],
        SEGMENT_SUM_CASES[1],
    ],
    ids=str,
)
def test_positions_of_other_dtypes(case, dtype, backend, rng):
    if dtype not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no {dtype}")
    *others, positions = case.draw(rng, "float32")
    case.check_values_of_arrays([*others, np.maximum(positions, 0).astype(dtype)])


@pytest.mark.rows("case", [*CASES, *ONE_HOT_CASES, *WHERE_TRUE_CASES, *NONZERO_CASES], ids=case_id)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


def test_many_elements(backend, rng):
    numbers, rows = uniform(-2, 2), integers(0, 262)
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
    Case(plugrad.take, np.take, []).check_values_of_arrays(
        [x, np.array([[2], [0], [1], [1]], "int32")]
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_segment_ids_far_out_of_range_are_ignored(dtype, backend):
    if dtype not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no {dtype}")
    limits = np.iinfo(dtype)
    far = [n for n in (-(2**31), -128, -1, 3, 255, 2**31 - 1) if limits.min <= n <= limits.max]
    ids = np.array([1, *far, 2], dtype)
    x = np.arange(1, ids.size + 1, dtype="float32")
    expected = np_segment_sum(x, ids, num_segments=3)
    assert plugrad.unsorted_segment_sum(x, ids, 3).tolist() == expected.tolist()


def test_nan_stays_in_its_segment(backend):
    x = plugrad.asarray([np.nan, 1, np.inf, 2])
    sums = plugrad.unsorted_segment_sum(x, [0, 1, 2, 1], 3).tolist()
    assert np.isnan(sums[0])
    assert sums[1:] == [3, np.inf]


@pytest.mark.rows("case", CASES, ids=case_id)
def test_gradient(case, backend, rng):
    case.check_gradient(rng, backend)


def test_gradient_of_repeated_indices(backend):
    x = plugrad.asarray([1.0, 2.0, 3.0])
    taken = plugrad.grad(lambda x: plugrad.sum(plugrad.take(x, [0, 2, 2, 2])))(x)
    assert taken.tolist() == [1, 0, 3]


def test_gradient_of_negative_indices(backend):
    x = plugrad.asarray([1.0, 2.0, 3.0])
    positions = plugrad.asarray(np.array([-1, 2, -3, -1], "int32"))
    gradient = plugrad.grad(lambda x: plugrad.sum(plugrad.take(x, positions)))(x)
    assert gradient.tolist() == [1, 0, 3]


def test_gradient_of_large_tensors(backend, rng):
    x = distinct().draw(rng, (263, 251), "float32")
    positions = rng.integers(0, 263, 300, "int32")
    total = lambda x: plugrad.sum(plugrad.take(x, positions, axis=0))  # noqa: E731
    gradient = plugrad.grad(total)(plugrad.asarray(x))
    counts = np.bincount(positions, minlength=263)
    np.testing.assert_array_equal(gradient.numpy(), np.broadcast_to(counts[:, None], x.shape))


@pytest.mark.parametrize("values", ["equal", "of all sizes"])
@pytest.mark.parametrize("inner", [(), (3,)])
def test_sums_of_many_numbers_of_one_segment_are_exact(values, inner, backend, rng):
    count = 1 << 18
    x = np.full(count, 0.1) if values == "equal" else rng.lognormal(0, 2, count)
    x = np.broadcast_to(x.astype("float32").reshape(-1, *(1 for _ in inner)), (count, *inner))
    expected = x.astype("float64").sum(axis=0)
    found = plugrad.unsorted_segment_sum(x, np.zeros(count, "int32"), 2)
    np.testing.assert_allclose(found[0], expected, rtol=5e-5)
    assert not found[1].numpy().any()


def test_gradients_of_repeated_indices_are_exact(backend):
    count = 1 << 18
    table, places = plugrad.ones((4, 2)), np.full(count, 2, "int32")
    slope = plugrad.grad(lambda x: plugrad.sum(plugrad.take(x, places, axis=0) * 0.1))(table)
    np.testing.assert_allclose(slope.numpy()[2], 0.1 * count, rtol=5e-5)
    assert not slope.numpy()[[0, 1, 3]].any()
