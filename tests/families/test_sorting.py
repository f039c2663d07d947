"""Sorting, searching, and the different slices along an axis."""

import numpy as np
import pytest

import plugrad
from families.case import REAL_AND_BOOL_DTYPES, Case, ErrorCase
from families.domains import Domain, distinct, uniform
from plugrad.errors import ArgumentValueError, AxisError, DTypeError, ShapeError
from plugrad.host import sorting as host_sorting
from plugrad.kernels import sorting

ALL_DTYPES = (*REAL_AND_BOOL_DTYPES, "complex64")


def np_argsort(x, *, axis=-1, descending=False, stable=True):
    """Reference for argsort: sort each row as a Python list."""

    def positions(line):
        by_value = np.sort(line)
        ranks = [int(np.searchsorted(by_value, value)) for value in line]
        return sorted(range(len(line)), key=lambda i: -ranks[i] if descending else ranks[i])

    if x.size == 0:
        return np.zeros(x.shape, "int32")
    return np.apply_along_axis(positions, axis, x)


def np_sort(x, *, axis=-1, descending=False, stable=True):
    y = np.sort(x, axis)
    return np.flip(y, axis) if descending else y


def np_top_k_values(x, *, k, sorted=True):
    return np.take_along_axis(x, np_top_k_indices(x, k=k, sorted=sorted), -1)


def np_top_k_indices(x, *, k, sorted=True):
    places = np_argsort(x, descending=True)[..., :k]
    return places if sorted else np.sort(places)


def top_k_values(x, **attrs):
    return plugrad.top_k(x, **attrs).values


def top_k_indices(x, **attrs):
    return plugrad.top_k(x, **attrs).indices


SHAPES_AND_SORT_ATTRIBUTES = [
    ((7,), {}),
    ((4, 5), {"axis": 0}),
    ((4, 5), {"axis": -1, "descending": True}),
    ((3, 5, 2), {"axis": 1, "descending": True}),
    ((3, 5, 2), {"axis": 1, "stable": True}),
    ((1, 1), {"axis": 0}),
    ((0,), {}),
    ((3, 0), {"axis": 1, "descending": True}),
    ((0, 3), {"axis": 1}),
]
SORT_CASES = [
    Case(plugrad.sort, np_sort, [distinct()], [shape], attrs, ALL_DTYPES)
    for shape, attrs in SHAPES_AND_SORT_ATTRIBUTES
]
ARGSORT_CASES = [
    Case(plugrad.argsort, np_argsort, [uniform(-3, 3)], [shape], attrs, ALL_DTYPES, "int32")
    for shape, attrs in SHAPES_AND_SORT_ATTRIBUTES
]
SHAPES_AND_TOP_K_ATTRIBUTES = [
    ((7,), {"k": 3}),
    ((7,), {"k": 7}),
    ((4, 5), {"k": 2}),
    ((4, 5), {"k": 0}),
    ((2, 3, 5), {"k": 4, "sorted": False}),
    ((4, 5), {"k": 1, "sorted": False}),
    ((3, 1), {"k": 1}),
    ((3, 0), {"k": 0}),
    ((0, 3), {"k": 2}),
]
TOP_K_VALUE_CASES = [
    Case(top_k_values, np_top_k_values, [distinct()], [shape], attrs, REAL_AND_BOOL_DTYPES)
    for shape, attrs in SHAPES_AND_TOP_K_ATTRIBUTES
]
TOP_K_INDEX_CASES = [
    Case(
        *(top_k_indices, np_top_k_indices, [uniform(-3, 3)], [shape], attrs),
        *(REAL_AND_BOOL_DTYPES, "int32"),
    )
    for shape, attrs in SHAPES_AND_TOP_K_ATTRIBUTES
]
ALL_SORTING_CASES = [*SORT_CASES, *ARGSORT_CASES, *TOP_K_VALUE_CASES, *TOP_K_INDEX_CASES]


def case_id(case):
    return f"{case} {' '.join(map(str, case.shapes))}".replace(", ", ",")


@pytest.mark.rows("case", ALL_SORTING_CASES, ids=case_id)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.rows("case", ALL_SORTING_CASES, ids=case_id)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows("case", ALL_SORTING_CASES, ids=case_id)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


SPECIAL_VALUES = np.array(
    [[np.nan, 1, -np.inf, np.nan, 0.0], [np.inf, -0.0, 0.0, -1, np.inf]], "float32"
)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_nan_is_the_largest_and_equal_elements_keep_their_order(axis, descending, backend):
    attrs = {"axis": axis, "descending": descending}
    Case(plugrad.argsort, np_argsort, [], attrs=attrs, result="int32").check_values_of_arrays(
        [SPECIAL_VALUES]
    )
    Case(plugrad.sort, np_sort, [], attrs=attrs).check_values_of_arrays([SPECIAL_VALUES])
    Case(
        top_k_indices, np_top_k_indices, [], attrs={"k": 4}, result="int32"
    ).check_values_of_arrays([SPECIAL_VALUES])


def test_unstable_order_is_an_order(backend, rng):
    x = rng.integers(0, 5, (3, 100)).astype("float32")
    for descending in (False, True):
        order = plugrad.argsort(x, descending=descending, stable=False)
        ordered = np.take_along_axis(x, order.numpy(), -1)
        np.testing.assert_array_equal(ordered, np_sort(x, descending=descending))


def test_smallest_and_largest_whole_numbers(backend):
    for dtype in {"int32", "uint8", "uint32", "int64"} & set(plugrad.which().backend.dtypes()):
        limits = np.iinfo(dtype)
        x = np.array([limits.min, limits.max, 3, limits.min], dtype)
        assert plugrad.sort(x, descending=True).tolist() == sorted(x.tolist(), reverse=True)
        assert plugrad.argsort(x, descending=True).tolist() == [1, 2, 0, 3]


def test_many_elements(backend, rng):
    x = rng.integers(-500, 500, (7, 4001)).astype("float32")
    np.testing.assert_array_equal(plugrad.argsort(x), np.argsort(x, kind="stable"))
    found = plugrad.top_k(x, 13)
    np.testing.assert_array_equal(found.indices, np.argsort(-x, kind="stable")[:, :13])


# --- searching ------------------------------------------------------------------------------------


def sorted_numbers(low, high):
    """Numbers that are sorted along the last axis."""
    numbers = uniform(low, high)
    return Domain(lambda rng, shape, dtype: np.sort(numbers.draw(rng, shape, dtype)))


def np_searchsorted(sequence, values, side="left"):
    """Return the number of elements that are less than each value ("left"), or not greater ("right")."""
    rows = sequence[..., None, :] if sequence.ndim > 1 else sequence
    count = np.less if side == "left" else np.less_equal
    return count(rows, values[..., None]).sum(-1)


SEARCH_SHAPES = [
    ((9,), (5,)),
    ((9,), ()),
    ((9,), (2, 3)),
    ((2, 9), (2, 5)),
    ((2, 3, 4), (2, 3, 1)),
    ((0,), (3,)),
    ((4,), (0,)),
    ((3, 0), (3, 2)),
    ((0, 3), (0, 2)),
]


def bound_cases(op, side):
    def reference(sequence, values):
        return np_searchsorted(sequence, values, side)

    return [
        Case(
            op,
            reference,
            [sorted_numbers(-4, 4), uniform(-5, 5)],
            shapes,
            {},
            REAL_AND_BOOL_DTYPES,
            "int32",
        )
        for shapes in SEARCH_SHAPES
    ]


SEARCHSORTED_CASES = [
    Case(
        *(plugrad.searchsorted, np_searchsorted, [sorted_numbers(-4, 4), uniform(-5, 5)], shapes),
        *({"side": side}, REAL_AND_BOOL_DTYPES, "int32"),
    )
    for shapes in SEARCH_SHAPES
    for side in ("left", "right")
]
BOUND_CASES = [
    *bound_cases(plugrad.lower_bound, "left"),
    *bound_cases(plugrad.upper_bound, "right"),
]


@pytest.mark.rows("case", [*SEARCHSORTED_CASES, *BOUND_CASES], ids=case_id)
def test_positions_of_binary_search(case, backend, rng):
    case.check_values(rng)
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows(
    "case", [SEARCHSORTED_CASES[0], SEARCHSORTED_CASES[6], BOUND_CASES[3]], ids=case_id
)
def test_binary_search_in_views(case, backend, rng):
    case.check_values_of_views(rng)


def test_binary_search_for_nan_and_infinities(backend):
    sequence = np.array([-np.inf, -1, 0, np.inf, np.nan, np.nan], "float32")
    values = np.array([np.nan, np.inf, -np.inf, -0.0, 5], "float32")
    for side in ("left", "right"):
        places = plugrad.searchsorted(sequence, values, side=side)
        np.testing.assert_array_equal(places, np.searchsorted(sequence, values, side))


def test_a_scalar_takes_the_dtype_of_the_sequence(backend):
    assert plugrad.searchsorted(plugrad.asarray([1, 3, 5], dtype="int32"), 3).item() == 1
    assert plugrad.upper_bound(plugrad.asarray([1.0, 3.0, 5.0]), 3).item() == 2


def test_searchsorted_in_a_given_order(backend, rng):
    x = rng.normal(size=(2, 8)).astype("float32")
    values = rng.normal(size=(2, 5)).astype("float32")
    found = plugrad.searchsorted(x, values, sorter=plugrad.argsort(x))
    np.testing.assert_array_equal(found, np_searchsorted(np.sort(x), values))
    found = plugrad.searchsorted(x[0], values, sorter=np.argsort(x[0]))
    np.testing.assert_array_equal(found, np_searchsorted(np.sort(x[0]), values))


# --- different slices -----------------------------------------------------------------------------


def reference_unique(x, axis):
    """Return the distinct slices along an axis, and the index of each slice's value, by pairwise comparison."""
    first, kinds = [], []
    slices = list(np.moveaxis(x, axis, 0))
    for i, part in enumerate(slices):
        same = [n for n, j in enumerate(first) if np.array_equal(slices[j], part)]
        kinds.append(same[0] if same else len(first))
        first += [] if same else [i]
    return np.take(x, np.array(first, int), axis), np.array(kinds, int)


def unique_slices(x, **attrs):
    return plugrad.unique(x, **attrs).values


def unique_inverse_indices(x, **attrs):
    return plugrad.unique(x, **attrs).inverse_indices


SHAPES_AND_AXES = [
    ((9,), {"axis": 0}),
    ((9, 2), {"axis": 0}),
    ((2, 9), {"axis": -1}),
    ((2, 5, 2), {"axis": 1}),
    ((0,), {"axis": 0}),
    ((3, 0), {"axis": 0}),
    ((3, 0), {"axis": 1}),
    ((1, 4), {"axis": 0}),
]
SMALL_RANGE = uniform(0, 2)
FEW_DISTINCT_NUMBERS = Domain(
    lambda rng, shape, dtype: np.round(SMALL_RANGE.draw(rng, shape, "float32")).astype(dtype)
)
UNIQUE_CASES = [
    Case(
        op,
        reference,
        [FEW_DISTINCT_NUMBERS],
        [shape],
        attrs,
        ALL_DTYPES,
        result,
        is_differentiable=False,
    )
    for op, reference, result in [  # equal slices stop being equal
        (unique_slices, lambda x, axis: reference_unique(x, axis)[0], ""),
        (unique_inverse_indices, lambda x, axis: reference_unique(x, axis)[1], "int32"),
    ]
    for shape, attrs in SHAPES_AND_AXES
]


@pytest.mark.rows("case", UNIQUE_CASES, ids=case_id)
def test_unique(case, backend, rng):
    case.check_values(rng)
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows("case", [UNIQUE_CASES[1], UNIQUE_CASES[3], UNIQUE_CASES[11]], ids=case_id)
def test_unique_in_views(case, backend, rng):
    case.check_values_of_views(rng)


def test_unique_takes_nan_as_equal_and_zeros_too(backend):
    found = plugrad.unique([np.nan, -0.0, 0.0, np.nan, 1])
    np.testing.assert_array_equal(found.values, np.array([np.nan, 0, 1], "float32"))
    assert found.inverse_indices.tolist() == [0, 1, 1, 0, 2]
    rows = plugrad.unique([[np.nan, 0.0], [np.nan, -0.0], [0.0, np.nan]])
    assert rows.inverse_indices.tolist() == [0, 0, 1]


def test_unique_strings():
    words = np.array([["a", "b,c", "d"], ["a", "b", "c,d"], ["a", "b,c", "d"]])
    with plugrad.use("cpu"):
        found = plugrad.unique(words)
        assert found.values.tolist() == words[:2].tolist()
        assert found.inverse_indices.tolist() == [0, 1, 0]
        assert plugrad.unique(words, axis=1).values.shape == (3, 3)


# --- gradients ------------------------------------------------------------------------------------

UNIQUE_GRADIENT_CASES = [
    Case(unique_slices, None, [distinct()], [shape], {"axis": axis})
    for shape, axis in [((5,), 0), ((3, 4), 0), ((3, 4, 2), 1)]
]


@pytest.mark.rows("case", [*SORT_CASES, *TOP_K_VALUE_CASES, *UNIQUE_GRADIENT_CASES], ids=case_id)
def test_gradient(case, backend, rng):
    if "stable" not in case.attrs and 0 not in case.shapes[0]:
        case.check_gradient(rng, backend)


def test_gradient_of_ties_goes_to_the_first(backend):
    x = plugrad.asarray([3.0, 1.0, 3.0, 1.0])
    weights = plugrad.asarray([1.0, 2.0, 4.0, 8.0])
    dx = plugrad.grad(lambda x: plugrad.sum(weights * plugrad.sort(x)))(x)
    assert dx.tolist() == [4, 1, 8, 2]
    assert plugrad.grad(lambda x: plugrad.top_k(x, 1).values[0])(x).tolist() == [1, 0, 0, 0]
    dx = plugrad.grad(lambda x: plugrad.sum(weights[:2] * plugrad.unique(x).values))(x)
    assert dx.tolist() == [1, 2, 0, 0]


def test_positions_have_no_gradient(backend):
    x = plugrad.asarray([3.0, 1.0, 2.0])

    def value(x):
        positions = plugrad.argsort(x) + plugrad.top_k(x, 3).indices + plugrad.searchsorted(x, x)
        return plugrad.sum(x * plugrad.astype(positions, "float32"))

    found = plugrad.value_and_grad(value)(x)
    positions = plugrad.argsort(x) + plugrad.top_k(x, 3).indices + plugrad.searchsorted(x, x)
    assert found[1].tolist() == positions.tolist()


# --- refusals -------------------------------------------------------------------------------------


def ones(*shape):
    return plugrad.ones(shape)


ERROR_CASES = [
    ErrorCase(lambda: plugrad.sort(1.0), AxisError, ["0-d"]),
    ErrorCase(lambda: plugrad.argsort(ones(2, 3), axis=2), AxisError, ["axis=2", "rank 2"]),
    ErrorCase(lambda: plugrad.top_k(1.0), ShapeError, ["TopK", "0-d"]),
    ErrorCase(
        lambda: plugrad.top_k(ones(3, 2), 3), ArgumentValueError, ["k=3", "0 and 2", "(3, 2)"]
    ),
    ErrorCase(lambda: plugrad.top_k(ones(2), -1), ArgumentValueError, ["k=-1", "0 and 2"]),
    ErrorCase(
        lambda: plugrad.searchsorted(ones(3), 1.0, side="middle"),
        ArgumentValueError,
        ["side='middle'", "'left' or 'right'"],
    ),
    ErrorCase(
        lambda: plugrad.searchsorted(ones(2, 3), ones(3, 3)),
        ShapeError,
        ["SearchSorted", "(2, 3)", "(3, 3)"],
    ),
    ErrorCase(lambda: plugrad.lower_bound(1.0, 1.0), ShapeError, ["LowerBound", "()"]),
    ErrorCase(
        lambda: plugrad.upper_bound(ones(2, 3), ones(3)),
        ShapeError,
        ["UpperBound", "(2, 3)", "(3,)"],
    ),
    ErrorCase(
        lambda: sorting.lower_bound(ones(3), plugrad.asarray([1])),
        DTypeError,
        ["LowerBound", "float32, int32"],
    ),
    ErrorCase(lambda: plugrad.unique(1.0), AxisError, ["0-d"]),
    ErrorCase(lambda: plugrad.unique(ones(3), axis=1), AxisError, ["axis=1", "rank 1"]),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()


# Only the cpu stores these dtypes on every machine.
DTYPE_ERROR_CASES = [
    ErrorCase(lambda: plugrad.sort(["a"]), DTypeError, ["sort", "string"]),
    ErrorCase(lambda: plugrad.top_k([1j]), DTypeError, ["top_k", "complex64"]),
]


@pytest.mark.rows("error_case", DTYPE_ERROR_CASES, ids=str)
def test_unsupported_dtypes_are_rejected(error_case):
    with plugrad.use("cpu"):
        error_case.check()


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
def test_long_vectors_of_integers_in_a_narrow_range(dtype, descending, rng):
    limits = np.iinfo(dtype)
    offsets = rng.integers(0, min(100_000, int(limits.max) - int(limits.min)), 120_000)
    below, above = limits.min + offsets.astype(dtype), limits.max - offsets.astype(dtype)
    for x in (below, above, below[:5000] // 100, below[:1]):
        found = host_sorting.sort(x, axis=0, descending=descending)
        expected = sorted(x.tolist(), reverse=descending)
        assert (found.dtype, found.tolist()) == (x.dtype, expected)
