"""Elements written at positions."""

from dataclasses import replace

import numpy as np
import pytest

import plugrad
from families.case import REAL_AND_BOOL_DTYPES, REAL_DTYPES, Case, ErrorCase
from families.domains import Domain, uniform
from plugrad.errors import DTypeError, ShapeError, TensorIndexError

NUMBER_DOMAIN = uniform(-3, 3)


def constant_indices(indices):
    return Domain(lambda rng, shape, dtype: np.array(indices, "int32"), "int32")


def index_tuples(indices):
    """Return the coordinates as tuples; an index along one axis becomes a tuple of one."""
    rows = indices if indices.ndim > 1 else indices.reshape(-1, 1)
    return [tuple(row) for row in rows.reshape(int(np.prod(rows.shape[:-1])), rows.shape[-1])]


def split_updates(updates, indices, shape):
    rows = index_tuples(indices)
    depth = len(rows[0]) if rows else 1
    return updates.reshape(len(rows), *shape[depth:]) if rows else []


def np_scatter(indices, updates, *, shape):
    result = np.zeros(shape, updates.dtype)
    for row, part in zip(
        index_tuples(indices), split_updates(updates, indices, shape), strict=True
    ):
        result[row] += part
    return result


def np_update(tensor, indices, updates):
    result = tensor.copy()
    for row, part in zip(
        index_tuples(indices), split_updates(updates, indices, tensor.shape), strict=True
    ):
        result[row] = part
    return result


def np_dense(indices, values, default=0, *, output_shape):
    result = np.full(output_shape, default, values.dtype)
    rows = index_tuples(np.atleast_1d(indices))
    for row, value in zip(rows, np.broadcast_to(values, len(rows)), strict=True):
        result[row] = value
    return result


# indices, the shape that they are about, the shape of the updates
INDEX_CASES = [
    ([[1], [3]], (4,), (2,)),
    ([1, 3, 1], (5, 2), (3, 2)),  # one axis of indices is positions on the first axis
    ([[0, 2], [1, 1], [0, 2], [0, 2]], (2, 3), (4,)),  # one place three times
    ([[[1], [0]], [[-1], [-3]]], (3, 2, 2), (2, 2, 2, 2)),
    ([[[2, -1]]], (3, 4, 5), (1, 1, 5)),
    ([[0, 1, 2]], (1, 2, 3), (1,)),
    (np.zeros((0, 1), "int32"), (3, 2), (0, 2)),
    (np.zeros((2, 0), "int32"), (3,), (2, 3)),  # no coordinates: the part is everything
    ([[1], [0]], (2, 0), (2, 0)),
]
SCATTER_CASES = [
    Case(
        lambda updates, indices, *, shape: plugrad.scatter_nd(indices, updates, shape),
        lambda updates, indices, *, shape: np_scatter(indices, updates, shape=shape),
        *([NUMBER_DOMAIN, constant_indices(indices)], [updates, np.shape(indices)]),
        {"shape": shape},
        REAL_DTYPES,
        name="scatter_nd",
    )
    for indices, shape, updates in INDEX_CASES
]
UPDATE_CASES = [
    Case(
        lambda tensor, updates, indices: plugrad.tensor_scatter_update(tensor, indices, updates),
        lambda tensor, updates, indices: np_update(tensor, indices, updates),
        [NUMBER_DOMAIN, NUMBER_DOMAIN, constant_indices(indices)],
        [shape, updates, np.shape(indices)],
        dtypes=REAL_AND_BOOL_DTYPES,
        name="tensor_scatter_update",
    )
    for indices, shape, updates in INDEX_CASES
]
SPARSE_TO_DENSE_CASES = [
    Case(
        lambda values, default, indices, *, output_shape: plugrad.sparse_to_dense(
            indices, values, output_shape, default
        ),
        lambda values, default, indices, *, output_shape: np_dense(
            indices, values, default, output_shape=output_shape
        ),
        [NUMBER_DOMAIN, NUMBER_DOMAIN, constant_indices(indices)],
        [values, (), np.shape(indices)],
        {"output_shape": shape},
        REAL_AND_BOOL_DTYPES,
        name="sparse_to_dense",
    )
    for indices, shape, values in [
        (2, (6,), ()),
        (-1, (6,), (1,)),
        ([0, 2, 4], (6,), (3,)),
        ([0, 2, 2], (6,), ()),
        ([[0, 1], [1, -1], [0, 1]], (2, 3), (3,)),
        ([[0, 1, 2]], (1, 2, 3), ()),
        (np.zeros((0, 2), "int32"), (2, 3), (0,)),
        (np.zeros((2, 0), "int32"), (), (2,)),
    ]
]
CASES = [*SCATTER_CASES, *UPDATE_CASES, *SPARSE_TO_DENSE_CASES]


def case_id(case):
    return f"{case} {' '.join(map(str, case.shapes))}".replace(", ", ",")


@pytest.mark.rows("case", CASES, ids=case_id)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.rows("case", CASES, ids=case_id)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows("case", CASES, ids=case_id)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


@pytest.mark.rows("case", CASES, ids=case_id)
def test_gradient(case, backend, rng):
    case.check_gradient(rng, backend)


def test_updates_of_the_same_position(backend):
    """Updates of the same place are added, or the last one wins; the gradients agree."""
    places, updates = [[1], [0], [1], [1]], plugrad.asarray([1.0, 2.0, 4.0, 8.0])
    weights = plugrad.asarray([3.0, 5.0, 7.0])

    def gradient(function):
        return plugrad.grad(lambda u: plugrad.sum(function(u) * weights))(updates).tolist()

    def added(u):
        return plugrad.scatter_nd(places, u, (3,))

    def updated(u):
        return plugrad.tensor_scatter_update([10.0, 20.0, 30.0], places, u)

    def dense(u):
        return plugrad.sparse_to_dense([1, 0, 1, 1], u, (3,), 30.0)

    assert added(updates).tolist() == [2, 13, 0]
    assert updated(updates).tolist() == dense(updates).tolist() == [2, 8, 30]
    assert gradient(added) == [5, 3, 5, 5]
    assert gradient(updated) == gradient(dense) == [0, 3, 0, 5]


def test_scatter_does_not_modify_its_input(backend):
    """TensorFlow.js writes into the input tensor."""
    x = plugrad.zeros((3,))
    assert plugrad.tensor_scatter_update(x, [[1]], [5.0]).tolist() == [0, 5, 0]
    assert x.tolist() == [0, 0, 0]


def test_default_value_may_be_a_tensor(backend):
    default = plugrad.asarray(2.0)
    gradient = plugrad.grad(
        lambda d: plugrad.sum(plugrad.sparse_to_dense([[0, 1], [0, 1]], [5.0, 6.0], (2, 3), d))
    )
    assert gradient(default).item() == 5  # one of the six elements is not the default


def test_integer_updates_of_floating_tensors(backend):
    assert plugrad.tensor_scatter_update(plugrad.zeros((2,)), [[1]], [5]).tolist() == [0, 5]
    assert plugrad.sparse_to_dense([1], [0.5], (2,)).tolist() == [0, 0.5]


def test_many_elements(backend, rng):
    shape, count = (263, 67), 1031
    updates = rng.uniform(-2, 2, (count, 67)).astype("float32")
    places = rng.integers(0, 263, (count, 1), "int32")
    for case in (SCATTER_CASES[0], UPDATE_CASES[0]):
        inputs = [updates] if case is SCATTER_CASES[0] else [np.ones(shape, "float32"), updates]
        attrs = {"shape": shape} if case is SCATTER_CASES[0] else {}
        replace(case, attrs=attrs, is_sum=True).check_values_of_arrays([*inputs, places])


def test_positions_out_of_range_are_an_error_on_the_cpu():
    with plugrad.use("cpu"):
        far = plugrad.asarray(np.array([[0, -3], [2, 1]], "int32"))
        with pytest.raises(TensorIndexError, match=r"ScatterNd: index -3 .* axis 1 of size 2"):
            plugrad.scatter_nd(far, [1.0, 2.0], (3, 2))
        with pytest.raises(TensorIndexError, match=r"Update: index 2 .* axis 0 of size 2"):
            plugrad.tensor_scatter_update(plugrad.zeros((2, 3)), far, [1.0, 2.0])
        with pytest.raises(TensorIndexError, match=r"SparseToDense: index 2 .* axis 0 of size 2"):
            plugrad.sparse_to_dense(far, 1.0, (2, 3))


def ones(*shape):
    return plugrad.ones(shape)


ERROR_CASES = [
    ErrorCase(
        lambda: plugrad.scatter_nd([[0], [3]], [1.0, 2.0], (3,)),
        TensorIndexError,
        ["scatter_nd", "index 3", "axis 0", "size 3"],
    ),
    ErrorCase(
        lambda: plugrad.tensor_scatter_update(ones(3, 2), [[0, -3]], [1.0]),
        TensorIndexError,
        ["tensor_scatter_update", "index -3", "axis 1", "size 2"],
    ),
    ErrorCase(
        lambda: plugrad.sparse_to_dense(6, 1.0, (6,)),
        TensorIndexError,
        ["sparse_to_dense", "index 6", "axis 0", "size 6"],
    ),
    ErrorCase(
        lambda: plugrad.scatter_nd([0], [1.0], (0,)), TensorIndexError, ["index 0", "size 0"]
    ),
    ErrorCase(
        lambda: plugrad.scatter_nd([[0.5]], [1.0], (2,)), DTypeError, ["scatter_nd", "float32"]
    ),
    ErrorCase(lambda: plugrad.scatter_nd([[0]], [True], (2,)), DTypeError, ["updates", "bool"]),
    ErrorCase(
        lambda: plugrad.scatter_nd([[0], [1]], ones(2, 3), (4, 2)),
        ShapeError,
        ["ScatterNd", "(2, 3)", "(2, 1)", "(4, 2)", "(2, 2)"],
    ),
    ErrorCase(lambda: plugrad.scatter_nd([[0], [1]], 1.0, (2,)), ShapeError, ["updates", "()"]),
    ErrorCase(lambda: plugrad.scatter_nd(0, 1.0, (2,)), ShapeError, ["indices are 0-d"]),
    ErrorCase(
        lambda: plugrad.scatter_nd([[0, 1]], [1.0], (2,)), ShapeError, ["2 coordinates", "1 axes"]
    ),
    ErrorCase(lambda: plugrad.scatter_nd([0], [1.0], (-2,)), ShapeError, ["(-2,)", "negative"]),
    ErrorCase(lambda: plugrad.scatter_nd([0], [1.0], (5.5,)), ShapeError, ["5.5", "integers"]),
    ErrorCase(
        lambda: plugrad.tensor_scatter_update(ones(2), [[0.5]], [1.0]),
        DTypeError,
        ["tensor_scatter_update", "float32", "integers"],
    ),
    ErrorCase(
        lambda: plugrad.tensor_scatter_update(ones(5, 3), [[0], [4], [2]], ones(2, 3)),
        ShapeError,
        ["TensorScatterUpdate", "(2, 3)", "(3, 3)"],
    ),
    ErrorCase(
        lambda: plugrad.tensor_scatter_update([1, 2], [[0]], [0.5]),
        DTypeError,
        ["updates are float32", "int32 does not hold", "astype('int32')"],
    ),
    ErrorCase(
        lambda: plugrad.sparse_to_dense([0.5], [1.0], (6,)),
        DTypeError,
        ["sparse_indices", "float32"],
    ),
    ErrorCase(
        lambda: plugrad.sparse_to_dense([[[1]]], [1.0], (6,)),
        ShapeError,
        ["(1, 1, 1)", "1 coordinates"],
    ),
    ErrorCase(
        lambda: plugrad.sparse_to_dense([[0, 1]], [1.0], (6,)), ShapeError, ["(1, 2)", "(6,)"]
    ),
    ErrorCase(
        lambda: plugrad.sparse_to_dense([0, 4, 2], [1.0, 2.0, 3.0, 4.0], (6,)),
        ShapeError,
        ["sparse_values", "(4,)", "(3,)"],
    ),
    ErrorCase(
        lambda: plugrad.sparse_to_dense([0], [1.0], (6,), [1.0]),
        ShapeError,
        ["default_value", "0-d"],
    ),
    ErrorCase(
        lambda: plugrad.sparse_to_dense([0], [1], (6,), 0.5),
        DTypeError,
        ["default_value", "float32", "int32"],
    ),
    ErrorCase(
        lambda: plugrad.sparse_to_dense([0], [1], (2.5,)), ShapeError, ["output_shape", "2.5"]
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()
