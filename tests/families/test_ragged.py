"""Ragged tensors: rows of different lengths, as splits and values."""

import math
from itertools import pairwise

import numpy as np
import pytest

import plugrad
from families.case import Case, ErrorCase
from families.domains import Domain, strings, uniform
from plugrad.errors import ArgumentValueError, DTypeError, ShapeError, TensorIndexError

REAL_DTYPES = ("float32", "float64", "int32", "int64", "int8", "uint8")
ALL_DTYPES = (*REAL_DTYPES, "bool", "complex64")


def constant_domain(values, dtype="int32"):
    return Domain(lambda rng, shape, given: np.array(values, dtype or given), dtype)


def np_ragged_range(starts, limits, deltas):
    """Return the splits and values of ragged_range, row by row."""
    rows = np.broadcast_arrays(*np.atleast_1d(starts, limits, deltas))
    values, splits = [], [0]
    for start, limit, delta in zip(*(x.tolist() for x in rows), strict=True):
        count = max(0, math.ceil((limit - start) / delta))
        values += [start + i * delta for i in range(count)]
        splits.append(len(values))
    return np.array(splits), np.array(values)


RANGE_CASES = [
    Case(
        lambda *args, index=index: plugrad.ragged_range(*args)[index],
        lambda *args, index=index: np_ragged_range(*args)[index],
        [constant_domain(numbers, "") for numbers in (starts, limits, deltas)],
        [np.shape(numbers) for numbers in (starts, limits, deltas)],
        {},
        ("float32", "float64") if is_float else ("float32", "float64", "int32", "int64"),
        "" if index else "int32",
        is_differentiable=index == 1 and is_float,  # else a limit is met exactly
        name=f"ragged_range {index} {starts} {limits} {deltas}",
    )
    for index in (0, 1)
    for starts, limits, deltas, is_float in [
        ([0, 5, 8, 5], [8, 7, 8, 1], [2, 1, 1, -1], False),
        (0, [3, 0, 2], 1, False),
        (0, 5, 2, False),
        ([0, 5], [5, 0], -2, False),
        ([], [], [], False),
        ([3], 9, 2, False),
        (0.25, [2.05, 3.6], 0.5, True),
        ([1.5, -1.5], -4.3, [-0.75, -2.5], True),
        (-1.25, 2.1, 0.5, True),
    ]
]


def ragged_to_lists(values, splits):
    """Return a ragged tensor as nested lists of values."""
    rows = list(values)
    for ends in reversed(splits):
        rows = [rows[a:b] for a, b in pairwise(ends)]
    return rows


def lists_to_ragged(rows, depth, values):
    """Return the splits and the values of nested lists."""
    found = []
    for _ in range(depth):
        found.append(np.cumsum([0, *map(len, rows)]))
        rows = [part for row in rows for part in row]
    return found, np.array(rows, values.dtype).reshape(len(rows), *values.shape[1:])


def gather_rows(rows, indices):
    return rows[indices] if indices.ndim == 0 else [gather_rows(rows, part) for part in indices]


def np_ragged_gather(values, indices, *splits):
    rows = gather_rows(ragged_to_lists(values, splits), indices)
    return lists_to_ragged(rows, indices.ndim + len(splits) - 1, values)


GATHER_CASES = [
    Case(
        lambda values, indices, *splits, index=index: _flat_gather(values, indices, splits)[index],
        lambda *args, index=index: [*(found := np_ragged_gather(*args))[0], found[1]][index],
        [values, constant_domain(indices), *map(constant_domain, splits)],
        [shape, np.shape(indices), *[(len(s),) for s in splits]],
        {},
        ("string",) if values.dtype else ALL_DTYPES,
        "int32" if index >= 0 else values.dtype,
        is_differentiable=index < 0 and not values.dtype,
        name=f"ragged_gather {index} {indices} {splits} {shape} {values.dtype}",
    )
    for splits, shape, indices in [
        ([[0, 2, 2, 5]], (5,), [2, 0]),
        ([[0, 2, 2, 5]], (5,), [[2, 0], [1, 2], [0, 0]]),
        ([[0, 2, 2, 5]], (5,), 2),
        ([[0, 2, 2, 5]], (5,), []),
        ([[1, 2, 4]], (5, 2), [1, 1]),
        ([[0, 1, 3, 3, 5, 6], [0, 0, 2, 3, 5, 8, 9]], (9,), [2, 1, 0, 2, 3]),
        ([[0, 1, 3, 3, 5, 6], [0, 0, 2, 3, 5, 8, 9]], (9, 2), 3),
        ([[0, 2], [0, 1, 3], [0, 2, 2, 3]], (3,), [0, 0]),
        ([[0, 2, 2, 2]], (2, 0), [2, 0]),
    ]
    for index in range(-1, len(splits) + np.ndim(indices) - 1)
    for values in (uniform(-3, 3), strings())
]


def _flat_gather(values, indices, splits):
    found = plugrad.ragged_gather(splits, values, indices)
    return [*found.output_nested_splits, found.output_dense_values]


def partition_to_splits(kind, partition, rows):
    """Return a row partition as row splits."""
    if kind == "ROW_SPLITS":
        return partition
    return np.cumsum([0, *np.bincount(np.asarray(partition, int), minlength=rows)])


def np_ragged_tensor_to_tensor(shape, values, default_value, *partitions, types):
    """Return the dense tensor of a ragged tensor, filled value by value."""
    all_splits, rows = [], None
    for kind, partition in zip(types, partitions, strict=True):
        if kind == "FIRST_DIM_SIZE":
            rows = int(partition)
            continue
        all_splits.append(partition_to_splits(kind, partition, rows))
        rows = all_splits[-1][-1]
    known = [len(all_splits[0]) - 1, *(np.diff(s).max(initial=0) for s in all_splits)]
    wanted = list(shape) if shape.ndim else [-1] * len(known)
    sizes = [m if n == -1 else n for n, m in zip(wanted, known, strict=False)]
    dense = np.empty((*sizes, *values.shape[1:]), values.dtype)
    dense[...] = default_value

    def fill(target, rows, depth):
        for i, row in enumerate(rows[: len(target)]):
            if depth:
                fill(target[i], row, depth - 1)
            else:
                target[i] = row

    fill(dense, ragged_to_lists(values, all_splits), len(all_splits))
    return dense


SIZES, IDS, SPLITS = "FIRST_DIM_SIZE", "VALUE_ROWIDS", "ROW_SPLITS"
PARTITIONS = [
    ([4, 4], [4, [0, 0, 0, 2, 2, 2, 2, 3, 3]], [SIZES, IDS], (9,), ()),
    ([4, 4], [[0, 3, 3, 7, 9]], [SPLITS], (9,), ()),
    ([-1, -1], [[0, 3, 3, 7, 9]], [SPLITS], (9,), ()),
    (-1, [[0, 3, 3, 7, 9]], [SPLITS], (9,), ()),
    ([3, 2], [[0, 3, 3, 7, 9]], [SPLITS], (9,), ()),
    ([6, 5], [[0, 3, 3, 7, 9]], [SPLITS], (9,), ()),
    ([-1, 0], [[0, 3, 3, 7, 9]], [SPLITS], (9,), ()),
    ([5, 2, 3], [5, [0, 1, 1, 3, 3, 4], [1, 1, 2, 3, 3, 4, 4, 4, 5]], [SIZES, IDS, IDS], (9,), ()),
    ([4, 1, -1], [5, [0, 1, 1, 3, 3, 4], [1, 1, 2, 3, 3, 4, 4, 4, 5]], [SIZES, IDS, IDS], (9,), ()),
    ([-1, -1, -1], [[0, 2, 2, 3], [0, 1, 3, 4]], [SPLITS, SPLITS], (4,), ()),
    ([-1, 1, 2], [[0, 2, 2, 3], [0, 1, 2, 2]], [SPLITS, IDS], (4,), ()),
    ([3, 5, 2], [4, [0, 0, 0, 2, 2, 2, 2, 3, 3]], [SIZES, IDS], (9, 2), ()),
    ([3, -1, 2], [4, [0, 0, 0, 2, 2, 2, 2, 3, 3]], [SIZES, IDS], (9, 2), (2,)),
    ([-1, -1, -1, -1], [[0, 1, 3]], [SPLITS], (3, 2, 3), (2, 1)),
    (-1, [[0, 1, 3]], [SPLITS], (3, 2, 3), (3,)),
    ([2, 3], [[0]], [SPLITS], (0,), ()),
    ([-1, -1], [0, []], [SIZES, IDS], (0,), ()),
    ([3, -1], [2, []], [SIZES, IDS], (0,), ()),
]


def op_and_reference(types):
    """Return the op and its reference for given types of row partitions."""

    def op(shape, values, default_value, *partitions):
        return plugrad.ragged_tensor_to_tensor(shape, values, default_value, partitions, types)

    def reference(shape, values, default_value, *partitions):
        return np_ragged_tensor_to_tensor(shape, values, default_value, *partitions, types=types)

    return op, reference


DENSE_CASES = [
    Case(
        *op_and_reference(types),
        [constant_domain(shape), values, values, *map(constant_domain, partitions)],
        [np.shape(shape), dense_shape, default_shape, *map(np.shape, partitions)],
        {},
        ("string",) if values.dtype else ALL_DTYPES,
        values.dtype,
        is_differentiable=not values.dtype,
        name=f"ragged_tensor_to_tensor {shape} {partitions} {dense_shape} {default_shape} {values.dtype}",
    )
    for shape, partitions, types, dense_shape, default_shape in PARTITIONS
    for values in (uniform(-3, 3), strings())
]

CASES = [*RANGE_CASES, *GATHER_CASES, *DENSE_CASES]


def case_id(case):
    return f"{case}".replace(", ", ",")


@pytest.mark.rows("case", CASES, ids=case_id)
def test_values(case, backend, rng):
    case.check_values(rng, case.dtypes[0])
    case.check_values_of_other_dtypes(rng)


DIFFERENTIABLE_CASES = [
    c for c in CASES if c.is_differentiable and 0 not in (*c.shapes[0], *c.shapes[1])
]


@pytest.mark.rows("case", DIFFERENTIABLE_CASES, ids=case_id)
def test_gradients(case, backend, rng):
    case.check_gradient(rng, backend)


def test_gradient_of_a_gap_alone(backend):
    def total(default):
        dense = plugrad.ragged_tensor_to_tensor(
            [2, 2], plugrad.zeros((0,)), default, [[0, 0, 0]], ["ROW_SPLITS"]
        )
        return plugrad.sum(dense * plugrad.asarray([[1.0, 2.0], [3.0, 4.0]]))

    assert plugrad.grad(total)(plugrad.asarray(5.0)).item() == 10


def test_gradients_differ_with_the_number_of_partitions(backend):
    """The differentiated input has the same position from the end of the list in both calls."""
    one = plugrad.asarray(1.0)

    def of_values(values):
        return plugrad.sum(
            plugrad.ragged_tensor_to_tensor([1, 2], values, one, [[0, 1]], ["ROW_SPLITS"])
        )

    def of_default(default):
        parts = [1, [0]], ["FIRST_DIM_SIZE", "VALUE_ROWIDS"]
        return plugrad.sum(plugrad.ragged_tensor_to_tensor([1, 3], [1.0], default, *parts))

    assert plugrad.grad(of_values)(plugrad.ones((1,))).tolist() == [1]
    assert plugrad.grad(of_default)(one).item() == 2


def test_output_rank_may_be_given(backend):
    found = plugrad.ragged_gather([[0, 2]], [1.0, 2.0], 0, 0)
    assert found.output_nested_splits == []
    assert found.output_dense_values.tolist() == [1, 2]


def test_kernel_takes_its_list_by_name(backend):
    splits = plugrad.asarray([0, 1, 3])
    inputs = {
        "params_dense_values": plugrad.asarray([1.0, 2.0, 3.0]),
        "indices": plugrad.asarray([1]),
        "params_nested_splits": [splits],
    }
    found = plugrad.run_kernel("RaggedGather", inputs, {"output_ragged_rank": 1})
    assert [part.tolist() for part in found] == [[0, 2], [2, 3]]


def test_values_are_exact_far_from_the_start(backend):
    """A step is multiplied by the index, not added repeatedly."""
    found = plugrad.ragged_range(0.0, 1000.0, 0.1)
    step = float(np.float32(0.1))
    exact = (np.arange(found.rt_dense_values.size) * step).astype(np.float32)
    np.testing.assert_array_equal(found.rt_dense_values.numpy(), exact)


def ragged_gather(splits=((0, 1, 3),), values=(1.0, 2.0, 3.0), indices=(0,), rank=None):
    return plugrad.ragged_gather(splits, values, indices, rank)


def ragged_to_dense(
    shape=(-1, -1), values=(1.0, 2.0), default=0.0, partitions=((0, 1, 2),), types=(SPLITS,)
):
    return plugrad.ragged_tensor_to_tensor(shape, values, default, partitions, types)


ERROR_CASES = [
    ErrorCase(
        lambda: plugrad.ragged_range([0, 1], [2, 3], [1, 0]),
        ArgumentValueError,
        ["RaggedRange", "deltas=[1, 0]", "must not be 0"],
    ),
    ErrorCase(
        lambda: plugrad.ragged_range([0, 1], [2], 1),
        ShapeError,
        ["RaggedRange", "one length", "(2,)", "(1,)"],
    ),
    ErrorCase(
        lambda: plugrad.ragged_range([0, 1], [2, 3], [[1], [1]]),
        ShapeError,
        ["numbers or vectors", "(2, 1)"],
    ),
    ErrorCase(
        lambda: plugrad.ragged_range([1.1, 0.1], [10.0, 1e10], [1.0, 1e-10]),
        ArgumentValueError,
        ["more than 2147483647 values"],
    ),
    ErrorCase(
        lambda: plugrad.ragged_range(np.float32(np.nan), np.float32(1), np.float32(1)),
        ArgumentValueError,
        ["nan", "more than 2147483647 values"],
    ),
    ErrorCase(lambda: plugrad.ragged_range("a", "b", "c"), DTypeError, ["RaggedRange", "string"]),
    ErrorCase(lambda: plugrad.ragged_range(True, True, True), DTypeError, ["RaggedRange", "bool"]),
    ErrorCase(
        lambda: ragged_gather(indices=[0, 2]),
        TensorIndexError,
        ["RaggedGather", "index 2 at position 1", "[0, 2)"],
    ),
    ErrorCase(
        lambda: ragged_gather(indices=-1), TensorIndexError, ["index -1 at position 0", "[0, 2)"]
    ),
    ErrorCase(lambda: ragged_gather([[0.0, 1.0]]), DTypeError, ["params_nested_splits", "float32"]),
    ErrorCase(
        lambda: ragged_gather([np.zeros(0, np.int32)]),
        ArgumentValueError,
        ["RaggedGather", "splits []", "one or more"],
    ),
    ErrorCase(
        lambda: ragged_gather([[0, 20]]), ArgumentValueError, ["splits [0, 20]", "not exceed 3"]
    ),
    ErrorCase(
        lambda: ragged_gather([[0, 3], [0, 1, 3]]),
        ArgumentValueError,
        ["splits [0, 3]", "not exceed 2"],
    ),
    ErrorCase(
        lambda: ragged_gather([[0, 2, 1]]), ArgumentValueError, ["splits [0, 2, 1]", "not decrease"]
    ),
    ErrorCase(
        lambda: ragged_gather([[-1, 2]]), ArgumentValueError, ["splits [-1, 2]", "at least 0"]
    ),
    ErrorCase(lambda: ragged_gather([]), ShapeError, ["RaggedGather", "there must be splits"]),
    ErrorCase(lambda: ragged_gather([[[0, 3]]]), ShapeError, ["with one axis each", "(1, 2)"]),
    ErrorCase(
        lambda: ragged_gather(values=1.0), ShapeError, ["values with one axis or more", "()"]
    ),
    ErrorCase(
        lambda: ragged_gather(rank=2),
        ArgumentValueError,
        ["output_ragged_rank=2", "must be 1", "(1,)"],
    ),
    ErrorCase(lambda: ragged_gather(indices=[0.0]), DTypeError, ["indices", "float32", "integers"]),
    ErrorCase(
        lambda: ragged_to_dense(types=["ROW_LIMITS"]),
        ArgumentValueError,
        ["row_partition_types=('ROW_LIMITS',)", "ROW_SPLITS"],
    ),
    ErrorCase(
        lambda: ragged_to_dense(types=[IDS]), ArgumentValueError, ["VALUE_ROWIDS only behind"]
    ),
    ErrorCase(
        lambda: ragged_to_dense(partitions=[[0, 1, 2], 2], types=[SPLITS, SIZES]),
        ArgumentValueError,
        ["FIRST_DIM_SIZE only in front"],
    ),
    ErrorCase(
        lambda: ragged_to_dense(partitions=[], types=[]),
        ArgumentValueError,
        ["row_partition_types=()"],
    ),
    ErrorCase(
        lambda: ragged_to_dense(partitions=[2]), ShapeError, ["row_partition_tensors", "[()]"]
    ),
    ErrorCase(
        lambda: ragged_to_dense(partitions=[[0, 1, 2], [0, 1]]),
        ShapeError,
        ["must be one for each type"],
    ),
    ErrorCase(
        lambda: ragged_to_dense(partitions=[[0, 1, 3]]),
        ShapeError,
        ["for 3 values, but there are 2"],
    ),
    ErrorCase(
        lambda: ragged_to_dense(partitions=[[1, 2]]), ArgumentValueError, ["[1, 2]", "begin with 0"]
    ),
    ErrorCase(
        lambda: ragged_to_dense(partitions=[[0, 2, 1]]),
        ArgumentValueError,
        ["[0, 2, 1]", "not decrease"],
    ),
    ErrorCase(
        lambda: ragged_to_dense(-1, partitions=[[0, 2], [0, 1, 2, 2]], types=[SPLITS, SPLITS]),
        ArgumentValueError,
        ["[0, 1, 2, 2]", "one more than the 2 rows"],
    ),
    ErrorCase(
        lambda: ragged_to_dense(partitions=[2, [1, 0]], types=[SIZES, IDS]),
        ArgumentValueError,
        ["row ids [1, 0]", "not decrease"],
    ),
    ErrorCase(
        lambda: ragged_to_dense(partitions=[2, [0, 2]], types=[SIZES, IDS]),
        ArgumentValueError,
        ["row ids [0, 2]", "[0, 2)"],
    ),
    ErrorCase(
        lambda: ragged_to_dense([2]), ShapeError, ["shape must be -1 or have 2 sizes", "(1,)"]
    ),
    ErrorCase(lambda: ragged_to_dense([[2, 2]]), ShapeError, ["shape must be -1", "(1, 2)"]),
    ErrorCase(lambda: ragged_to_dense(2), ShapeError, ["shape=2", "must be -1"]),
    ErrorCase(lambda: ragged_to_dense([-2, 2]), ShapeError, ["shape=[-2, 2]"]),
    ErrorCase(
        lambda: ragged_to_dense([2, 2, 4], values=np.ones((2, 3), np.float32)),
        ShapeError,
        ["shape=[2, 2, 4]", "(3,)", "one value"],
    ),
    ErrorCase(
        lambda: ragged_to_dense(default=[0.0, 0.0]),
        ShapeError,
        ["default_value of shape (2,)", "()", "(2,)"],
    ),
    ErrorCase(
        lambda: ragged_to_dense(
            [-1, -1, -1], values=np.ones((2, 1), np.float32), default=[0.0, 0.0]
        ),
        ShapeError,
        ["default_value of shape (2,)", "(1,)"],
    ),
    ErrorCase(lambda: ragged_to_dense(values=1.0), ShapeError, ["values of shape ()"]),
    ErrorCase(lambda: ragged_to_dense(default="x"), DTypeError, ["float32 and string"]),
    ErrorCase(lambda: ragged_to_dense([2.0, 2.0]), DTypeError, ["shape", "float32", "integers"]),
    ErrorCase(
        lambda: ragged_to_dense(partitions=[[0.0, 1.0]]),
        DTypeError,
        ["row_partition_tensors", "float32"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()
