"""Sparse tensors: coordinates, values and a dense shape."""

import numpy as np
import pytest

import plugrad
from families.case import Case, ErrorCase
from families.domains import Domain, strings, uniform
from plugrad.errors import ArgumentValueError, DTypeError, ShapeError, TensorIndexError
from plugrad.kernels import sparse as kernels

REAL_DTYPES = ("float32", "float64", "int32", "int64", "int8", "uint8")
ALL_DTYPES = (*REAL_DTYPES, "bool", "complex64")


def constant_domain(values, dtype="int32"):
    return Domain(lambda rng, shape, _: np.array(values, dtype), dtype)


def with_result_part(op, name):
    """Return an op that returns one part of another op's result."""

    def picked(*args, **attrs):
        return getattr(op(*args, **attrs), name)

    picked.__name__ = f"{op.__name__} {name}"
    return picked


# --- filling --------------------------------------------------------------------------------------


def np_fill_empty_rows(indices, values, dense_shape, default_value):
    """Reference for sparse_fill_empty_rows, row by row."""
    places, entries, is_empty, moved = [], [], [], {}
    for row in range(dense_shape[0]):
        found = [i for i, index in enumerate(indices) if index[0] == row]
        is_empty.append(not found)
        for i in found:
            moved[i] = len(places)
            places.append(indices[i])
            entries.append(values[i])
        if not found:
            places.append([row] + [0] * (len(dense_shape) - 1))
            entries.append(default_value)
    return {
        "output_indices": np.array(places, np.int32).reshape(-1, len(dense_shape)),
        "output_values": np.array(entries, values.dtype),
        "empty_row_indicator": np.array(is_empty, bool),
        "reverse_index_map": np.array([moved[i] for i in range(len(indices))], np.int32),
    }


RESULT_DTYPES = {
    "output_indices": "int32",
    "output_values": "",
    "empty_row_indicator": "bool",
    "reverse_index_map": "int32",
}
INDICES_AND_SHAPES = [
    ([[0, 1], [2, 0], [2, 3]], [4, 5]),
    ([[3, 1], [0, 4], [3, 0], [1, 1]], [5, 5]),
    ([[0, 1], [1, 0]], [2, 2]),
    ([[1, 0, 2], [1, 1, 0]], [3, 2, 3]),
    ([[2], [0], [2]], [4]),
    (np.zeros((0, 2)), [3, 2]),
    (np.zeros((0, 2)), [0, 2]),
]
FILL_EMPTY_ROWS_CASES = [
    Case(
        with_result_part(plugrad.sparse.sparse_fill_empty_rows, name),
        lambda *args, name=name: np_fill_empty_rows(*args)[name],
        [constant_domain(indices), values, constant_domain(dense_shape), values],
        [np.shape(indices), (len(indices),), (len(dense_shape),), ()],
        {},
        ("string",) if values.dtype else ALL_DTYPES,
        result or values.dtype,
        is_differentiable=name == "output_values" and not values.dtype,
        name=f"{name} {np.shape(indices)} {dense_shape} {values.dtype}",
    )
    for name, result in RESULT_DTYPES.items()
    for indices, dense_shape in INDICES_AND_SHAPES
    for values in (uniform(-3, 3), strings())
]

# --- reshaping ------------------------------------------------------------------------------------


def np_sparse_reshape(input_indices, input_shape, new_shape):
    """Return the indices of the entries after the dense tensor is reshaped."""
    numbers = np.arange(np.prod(input_shape, dtype=int)).reshape(input_shape)
    reshaped = numbers.reshape(new_shape)
    found = [np.argwhere(reshaped == numbers[tuple(index)])[0] for index in input_indices]
    return {
        "output_indices": np.array(found, np.int32).reshape(len(input_indices), len(new_shape)),
        "output_shape": np.array(reshaped.shape, np.int32),
    }


RESHAPE_CASES = [
    Case(
        with_result_part(plugrad.sparse.sparse_reshape, name),
        lambda *args, name=name: np_sparse_reshape(*args)[name],
        [constant_domain(indices), constant_domain(old), constant_domain(new)],
        [np.shape(indices), (len(old),), (len(new),)],
        {},
        ("int32",),
        name=f"{name} {old} {new}",
    )
    for name in ("output_indices", "output_shape")
    for indices, old, new in [
        ([[0, 0, 1], [0, 1, 0], [1, 2, 3]], [2, 3, 4], [6, 4]),
        ([[0, 0, 1], [1, 2, 3]], [2, 3, 4], [2, -1]),
        ([[0, 1], [3, 2]], [5, 6], [2, 3, 5]),
        ([[0, 1], [3, 2]], [5, 6], [5, 6]),
        ([[4]], [6], [1, 6, 1]),
        ([[2, 0], [1, 0]], [3, 1], [-1]),
        (np.zeros((0, 2)), [2, 3], [3, -1]),
        (np.zeros((0, 2)), [0, 3], [3, 0]),
        (np.zeros((2, 0)), [], [1, -1]),
        ([[0, 0]], [1, 1], []),
    ]
]

# --- segments -------------------------------------------------------------------------------------


def np_segment_sum(data, indices, segment_ids, is_mean=False):
    result = np.zeros((max([-1, *segment_ids]) + 1, *data.shape[1:]), data.dtype)
    for segment in range(len(result)):
        rows = data[indices[segment_ids == segment]]
        if len(rows):
            result[segment] = rows.mean(0) if is_mean else rows.sum(0)
    return result


def np_segment_mean(data, indices, segment_ids):
    return np_segment_sum(data, indices, segment_ids, is_mean=True)


INDICES_AND_SEGMENT_IDS = [
    ([0, 2, 1], [0, 0, 1]),
    ([3, 0], [0, 2]),
    ([2, 2, 1, 0], [0, 1, 1, 3]),
    ([1], [0]),
    ([1, 1, 1], [1, 1, 1]),
    ([-1, 1, -4, -1], [0, 0, 1, 2]),
    ([], []),
]
SEGMENT_SUM_CASES = [
    Case(
        *(plugrad.sparse.sparse_segment_sum, np_segment_sum),
        *(
            [uniform(-3, 3), constant_domain(indices), constant_domain(ids)],
            [shape, (len(ids),), (len(ids),)],
        ),
        *({}, (*REAL_DTYPES, "complex64")),
        is_sum=True,
    )
    for indices, ids in INDICES_AND_SEGMENT_IDS
    for shape in [(4, 3), (4,), (5, 2, 3), (4, 0)]
]
SEGMENT_MEAN_CASES = [
    Case(
        *(plugrad.sparse.sparse_segment_mean, np_segment_mean),
        *(
            [uniform(-3, 3), constant_domain(indices), constant_domain(ids)],
            [shape, (len(ids),), (len(ids),)],
        ),
        *({}, ("float32", "float64", "complex64")),
    )
    for indices, ids in INDICES_AND_SEGMENT_IDS
    for shape in [(4, 3), (4,), (5, 2, 3), (4, 0)]
]
CASES = [*FILL_EMPTY_ROWS_CASES, *RESHAPE_CASES, *SEGMENT_SUM_CASES, *SEGMENT_MEAN_CASES]


def case_id(case):
    return f"{case} {' '.join(map(str, case.shapes))}".replace(", ", ",")


@pytest.mark.rows("case", CASES, ids=case_id)
def test_values(case, backend, rng):
    case.check_values(rng, case.dtypes[0])
    case.check_values_of_other_dtypes(rng)


DIFFERENTIABLE_CASES = [
    case
    for case in [*FILL_EMPTY_ROWS_CASES, *SEGMENT_SUM_CASES, *SEGMENT_MEAN_CASES]
    if case.is_differentiable and "float32" in case.dtypes and 0 not in case.shapes[0]
]


@pytest.mark.rows("case", [c for c in DIFFERENTIABLE_CASES if 0 not in c.shapes[1]], ids=case_id)
def test_gradients(case, backend, rng):
    case.check_gradient(rng, backend)


def test_gradient_where_there_is_no_entry(backend):
    def total(default):
        indices = np.zeros((0, 2), np.int32)
        found = plugrad.sparse.sparse_fill_empty_rows(indices, plugrad.zeros((0,)), [3, 2], default)
        return plugrad.sum(found.output_values * plugrad.asarray([1.0, 2.0, 3.0]))

    assert plugrad.grad(total)(plugrad.asarray(5.0)).item() == 6


def test_gradient_where_no_row_is_listed(backend):
    nothing = np.zeros(0, np.int32)
    for op in (plugrad.sparse.sparse_segment_sum, plugrad.sparse.sparse_segment_mean):
        gradient = plugrad.grad(lambda x, op=op: plugrad.sum(op(x, nothing, nothing)))
        assert gradient(plugrad.ones((2, 3))).tolist() == [[0, 0, 0], [0, 0, 0]]


def test_means_of_whole_numbers_are_floats(backend):
    means = plugrad.sparse.sparse_segment_mean([1, 2, 4], [0, 1, 2], [0, 0, 1])
    assert means.dtype == "float32"
    assert means.tolist() == [1.5, 4]


def test_positions_may_be_long(backend):
    if plugrad.int64 not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no int64")
    long = [plugrad.asarray(np.array(x)) for x in ([2, 0], [0, 1])]
    assert plugrad.sparse.sparse_segment_sum([1.0, 2.0, 3.0], *long).tolist() == [3, 1]


def test_positions_count_from_either_end(backend):
    """Negative indices count from the end as those of take, in lists and in tensors."""
    x = plugrad.asarray([1.0, 2.0, 4.0])
    for positions in ([-1, 0, -3], plugrad.asarray([-1, 0, -3])):
        assert plugrad.take(x, positions).tolist() == [4, 1, 1]
        for op, sums in [
            (plugrad.sparse.sparse_segment_sum, [5, 1]),
            (plugrad.sparse.sparse_segment_mean, [2.5, 1]),
        ]:
            assert op(x, positions, [0, 0, 1]).tolist() == sums
            gradient = plugrad.grad(lambda x, op=op, p=positions: op(x, p, [0, 0, 1]))(
                x, dy=[1.0, 1.0]
            )
            share = sums[0] / 5
            assert gradient.tolist() == [share + 1, 0, share]


def test_large_dense_shapes(backend):
    """Flat indices of the elements exceed int32."""
    found = plugrad.sparse.sparse_reshape([[99_999, 99_998]], [100_000, 100_000], [-1, 10])
    assert found.output_shape.tolist() == [1_000_000_000, 10]
    assert found.output_indices.tolist() == [[999_999_999, 8]]


def test_nan_reaches_only_its_segment(backend):
    data = plugrad.asarray([np.nan, 1.0, np.inf])
    for op in (plugrad.sparse.sparse_segment_sum, plugrad.sparse.sparse_segment_mean):
        np.testing.assert_array_equal(
            op(data, [0, 1, 2], [0, 1, 2]).numpy(), np.float32([np.nan, 1, np.inf])
        )


def fill_empty_rows(indices=((0, 0),), values=(1.0,), dense_shape=(2, 2), default_value=0.0):
    return plugrad.sparse.sparse_fill_empty_rows(indices, values, dense_shape, default_value)


def segment_sum(data=(1.0, 2.0), indices=(0, 1), segment_ids=(0, 1)):
    return plugrad.sparse.sparse_segment_sum(data, indices, segment_ids)


ERROR_CASES = [
    ErrorCase(
        lambda: fill_empty_rows([[-1, 0]]),
        TensorIndexError,
        ["SparseFillEmptyRows", "indices[0, 0] = -1", "[0, 2)"],
    ),
    ErrorCase(
        lambda: fill_empty_rows([[0, 0], [2, 0]], [1.0, 2.0]),
        TensorIndexError,
        ["indices[1, 0] = 2", "[0, 2)", "dense_shape"],
    ),
    ErrorCase(
        lambda: fill_empty_rows(dense_shape=[0, 2]),
        TensorIndexError,
        ["indices[0, 0] = 0", "[0, 0)"],
    ),
    ErrorCase(
        lambda: fill_empty_rows([0]), ShapeError, ["indices must be one row for each entry", "(1,)"]
    ),
    ErrorCase(
        lambda: fill_empty_rows(values=[1.0, 2.0]), ShapeError, ["values of shape (2,)", "(1, 2)"]
    ),
    ErrorCase(
        lambda: fill_empty_rows(dense_shape=[2]),
        ShapeError,
        ["dense_shape one size", "(1, 2)", "(1,)"],
    ),
    ErrorCase(
        lambda: fill_empty_rows(default_value=[0.0]), ShapeError, ["default_value of shape (1,)"]
    ),
    ErrorCase(lambda: fill_empty_rows(default_value="x"), DTypeError, ["float32 and string"]),
    ErrorCase(
        lambda: fill_empty_rows([[0.5, 0.0]]), DTypeError, ["indices", "float32", "integers"]
    ),
    ErrorCase(
        lambda: fill_empty_rows(dense_shape=[2.0, 2.0]), DTypeError, ["dense_shape", "integers"]
    ),
    ErrorCase(
        lambda: plugrad.sparse.sparse_reshape([[0, 0]], [2, 3], [-1, -1]),
        ShapeError,
        ["SparseReshape", "new_shape=[-1, -1]", "one -1"],
    ),
    ErrorCase(
        lambda: plugrad.sparse.sparse_reshape([[0, 0]], [2, 3], [-2, 3]),
        ShapeError,
        ["new_shape=[-2, 3]", "0 or more"],
    ),
    ErrorCase(
        lambda: plugrad.sparse.sparse_reshape([[0, 0]], [2, 3], [4, -1]),
        ShapeError,
        ["6 elements", "[2, 3]", "new_shape=[4, -1]"],
    ),
    ErrorCase(
        lambda: plugrad.sparse.sparse_reshape([[0, 0]], [2, 3], [5]),
        ShapeError,
        ["6 elements", "new_shape=[5]"],
    ),
    ErrorCase(
        lambda: plugrad.sparse.sparse_reshape(np.zeros((0, 2), np.int32), [0, 3], [0, -1]),
        ShapeError,
        ["0 elements", "new_shape=[0, -1]"],
    ),
    ErrorCase(
        lambda: plugrad.sparse.sparse_reshape([[0, 0]], [2], [2]),
        ShapeError,
        ["SparseReshape", "(1, 2)", "(1,)"],
    ),
    ErrorCase(
        lambda: plugrad.sparse.sparse_reshape([[0]], [2], [[2]]),
        ShapeError,
        ["new_shape must have one axis", "(1, 1)"],
    ),
    ErrorCase(
        lambda: plugrad.sparse.sparse_reshape([[0.5]], [2], [2]),
        DTypeError,
        ["input_indices", "float32", "integers"],
    ),
    ErrorCase(lambda: segment_sum(indices=[0, 2]), TensorIndexError, ["indices[1] = 2", "[-2, 2)"]),
    ErrorCase(
        lambda: segment_sum(indices=[-3, 0]), TensorIndexError, ["indices[0] = -3", "[-2, 2)"]
    ),
    ErrorCase(
        lambda: segment_sum(segment_ids=[1, 0]),
        ArgumentValueError,
        ["SparseSegmentSum", "segment_ids=[1, 0]", "not decrease"],
    ),
    ErrorCase(
        lambda: segment_sum(segment_ids=[-1, 0]), ArgumentValueError, ["[-1, 0]", "0 or more"]
    ),
    ErrorCase(lambda: segment_sum(segment_ids=[0]), ShapeError, ["(2,)", "(1,)", "of one length"]),
    ErrorCase(lambda: segment_sum(data=1.0), ShapeError, ["data of shape ()", "at least one axis"]),
    ErrorCase(lambda: segment_sum(indices=[[0, 1]]), ShapeError, ["(1, 2)"]),
    ErrorCase(lambda: segment_sum(data=[True, False]), DTypeError, ["sparse_segment_sum", "bool"]),
    ErrorCase(lambda: segment_sum(indices=[0.0, 1.0]), DTypeError, ["indices", "float32"]),
    ErrorCase(lambda: segment_sum(segment_ids=[0.0, 1.0]), DTypeError, ["segment_ids", "float32"]),
    ErrorCase(
        lambda: plugrad.sparse.sparse_segment_mean(["a", "b"], [0], [0]),
        DTypeError,
        ["sparse_segment_mean (data) does not take string"],
    ),
    ErrorCase(
        lambda: plugrad.sparse.sparse_segment_mean([1.0], [0, 0], [2, 1]),
        ArgumentValueError,
        ["SparseSegmentMean", "segment_ids=[2, 1]"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()


def test_kernel_takes_no_numbers_for_positions(backend):
    with pytest.raises(DTypeError, match=r"SparseSegmentSum \(indices\) does not take float32"):
        kernels.sparse_segment_sum(plugrad.ones(2), plugrad.zeros(1), plugrad.zeros(1))
