"""Arguments of positions: integers in range are accepted from any source, others are rejected."""

import numpy as np
import pytest

import plugrad
from families.case import ErrorCase
from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    AxisError,
    DTypeError,
    ShapeError,
    TensorIndexError,
)


def ones(*shape):
    return plugrad.ones(shape)


ERROR_CASES = [
    ErrorCase(lambda: plugrad.take([1.0], [0.5]), DTypeError, ["take", "float32", "int32"]),
    ErrorCase(lambda: plugrad.take([1.0], [True]), DTypeError, ["take", "bool", "integers"]),
    ErrorCase(lambda: plugrad.take(ones(2, 3), [0], axis=2), AxisError, ["axis=2", "rank 2"]),
    ErrorCase(lambda: plugrad.take(ones(2, 3), [0]), AxisError, ["axis"]),
    ErrorCase(
        lambda: plugrad.take(ones(2), [0, 2]),
        TensorIndexError,
        ["take", "index 2", "axis 0", "size 2"],
    ),
    ErrorCase(
        lambda: plugrad.take(ones(2, 3), [-4], axis=1),
        TensorIndexError,
        ["index -4", "axis 1", "size 3"],
    ),
    ErrorCase(lambda: plugrad.take(ones(0), [0]), TensorIndexError, ["index 0", "size 0"]),
    ErrorCase(
        lambda: plugrad.take(ones(2, 3), [[0], [0], [0]], axis=1, batch_dims=1),
        ShapeError,
        ["GatherV2", "batch_dims=1", "(2, 3)", "(3, 1)"],
    ),
    ErrorCase(
        lambda: plugrad.take(ones(2, 2, 2), [[[1, 0]]], axis=2, batch_dims=3),
        ShapeError,
        ["batch_dims=3", "axis 2"],
    ),
    ErrorCase(
        lambda: plugrad.take(ones(2, 3), [[0], [0]], axis=1, batch_dims=0.5),
        ArgumentError,
        ["take", "batch_dims=0.5", "integer"],
    ),
    ErrorCase(
        lambda: plugrad.take_along_axis(ones(2, 3), [0]),
        ShapeError,
        ["take_along_axis", "(1,)", "(2, 3)"],
    ),
    ErrorCase(
        lambda: plugrad.take_along_axis(ones(2, 3), np.zeros((3, 1), "int32")),
        ShapeError,
        ["(2,)", "(3,)"],
    ),
    ErrorCase(
        lambda: plugrad.take_along_axis(ones(2), [2]), TensorIndexError, ["index 2", "size 2"]
    ),
    ErrorCase(
        lambda: plugrad.take_along_axis(ones(2), [0.5]),
        DTypeError,
        ["take_along_axis", "float32"],
    ),
    ErrorCase(
        lambda: plugrad.take_along_axis(ones(2), [0], axis=1), AxisError, ["axis=1", "rank 1"]
    ),
    ErrorCase(lambda: plugrad.gather_nd(ones(2, 3), [0.5]), DTypeError, ["gather_nd", "float32"]),
    ErrorCase(
        lambda: plugrad.gather_nd(ones(2), [[0, 0]]),
        ShapeError,
        ["GatherNd", "(1, 2)", "(2,)", "1 coordinates"],
    ),
    ErrorCase(
        lambda: plugrad.gather_nd(ones(2, 3), [[1, 2], [0, -4]]),
        TensorIndexError,
        ["gather_nd", "index -4", "axis 1", "size 3"],
    ),
    ErrorCase(lambda: plugrad.gather_nd(ones(2), 0), ShapeError, ["GatherNd", "()", "last axis"]),
    ErrorCase(lambda: plugrad.nonzero(1.0), ShapeError, ["nonzero", "0-d"]),
    ErrorCase(
        lambda: plugrad.boolean_mask([1.0], [1]), DTypeError, ["boolean_mask", "int32", "bool"]
    ),
    ErrorCase(lambda: plugrad.boolean_mask(ones(2), True), ShapeError, ["boolean_mask", "0-d"]),
    ErrorCase(
        lambda: plugrad.boolean_mask(ones(2, 3), [True] * 2, axis=1),
        TensorIndexError,
        ["(2,)", "(2, 3)"],
    ),
    ErrorCase(lambda: plugrad.boolean_mask(ones(2), [True] * 2, axis=1), AxisError, ["axis=1"]),
    ErrorCase(lambda: plugrad.one_hot([0.5], 3), DTypeError, ["one_hot", "float32", "int32"]),
    ErrorCase(
        lambda: plugrad.one_hot([0], -1), ArgumentValueError, ["one_hot", "depth=-1", "0 or more"]
    ),
    ErrorCase(
        lambda: plugrad.one_hot([0], 1.5), ArgumentError, ["one_hot", "depth=1.5", "integer"]
    ),
    ErrorCase(
        lambda: plugrad.unsorted_segment_sum(ones(3, 2), [0, 1], 2),
        ShapeError,
        ["UnsortedSegmentSum", "(2,)", "(3, 2)"],
    ),
    ErrorCase(
        lambda: plugrad.unsorted_segment_sum(ones(2), [0, 1], -2),
        ArgumentValueError,
        ["num_segments=-2", "0 or more"],
    ),
    ErrorCase(
        lambda: plugrad.unsorted_segment_sum(ones(2), [0, 1], 2.5),
        ArgumentError,
        ["num_segments=2.5"],
    ),
    ErrorCase(
        lambda: plugrad.unsorted_segment_sum(ones(2), [0, 2**40], 2),
        ArgumentValueError,
        ["segment_ids", "int32"],
    ),
    ErrorCase(
        lambda: plugrad.unsorted_segment_sum(ones(1), np.array([2**40]), 2),
        TensorIndexError,
        ["1099511627776", "int32"],
    ),
    ErrorCase(
        lambda: plugrad.unsorted_segment_sum(ones(2), [0.0, 1.0], 2),
        DTypeError,
        ["segment_ids", "float32"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()


def index_tensor(*positions):
    return plugrad.asarray(np.array(positions, "int32"))


def test_positions_out_of_range(backend):
    """The cpu raises; a backend that would have to wait for its device reads zeros instead."""
    x = plugrad.asarray([1.0, 2.0, 3.0])
    if backend == "cpu":
        with pytest.raises(TensorIndexError, match="index 3 is out of range for axis 0 of size 3"):
            plugrad.take(x, index_tensor(0, 3))
    else:
        far = index_tensor(3, -1, 1, 2**30, -4, -(2**31))
        assert plugrad.take(x, far).tolist() == [0, 3, 2, 0, 0, 0]
        gradient = plugrad.grad(lambda x: plugrad.sum(plugrad.take(x, far)))(x)
        assert gradient.tolist() == [0, 1, 1]
        square, each = plugrad.ones((2, 2)), plugrad.reshape(index_tensor(2, 0, -3, -1), (2, 2))
        gradient = plugrad.grad(lambda x: plugrad.sum(plugrad.take_along_axis(x, each)))(square)
        assert gradient.tolist() == [[1, 0], [0, 1]]  # and nothing from one row in the other


def test_coordinates_out_of_range(backend):
    """Coordinates out of range read 0, and what is written to them is lost."""
    if backend == "cpu":
        pytest.skip("the cpu raises")
    x = plugrad.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    far = plugrad.reshape(index_tensor(0, 3, 1, -1, -3, 0, 2**30, 2**30, 0, 1), (5, 2))
    lost = plugrad.asarray([10.0, 20.0, 30.0, 40.0, 50.0])
    assert plugrad.gather_nd(x, far).tolist() == [0, 6, 0, 0, 2]
    assert plugrad.scatter_nd(far, lost, (2, 3)).tolist() == [[0, 50, 0], [0, 0, 20]]
    assert plugrad.tensor_scatter_update(x, far, lost).tolist() == [[1, 50, 3], [4, 5, 20]]
    assert plugrad.sparse_to_dense(far, lost, (2, 3), -1.0).tolist() == [[-1, 50, -1], [-1, -1, 20]]
    gradient = plugrad.grad(lambda x: plugrad.sum(plugrad.gather_nd(x, far)))(x)
    assert gradient.tolist() == [[0, 1, 0], [0, 0, 1]]


def test_positions_out_of_range_in_batches_and_coordinates():
    with plugrad.use("cpu"):
        x = ones(2, 3)
        with pytest.raises(TensorIndexError, match=r"GatherV2: index 3 .* axis 1 of size 3"):
            plugrad.take(x, plugrad.reshape(index_tensor(0, 3), (2, 1)), axis=1, batch_dims=1)
        with pytest.raises(TensorIndexError, match=r"GatherNd: index -4 .* axis 1 of size 3"):
            plugrad.gather_nd(x, plugrad.reshape(index_tensor(1, 2, 0, -4), (2, 2)))


def test_literals_are_copied_to_the_device_of_the_tensor(backend):
    """Python lists become tensors on the device of the other operand, even if another backend is active."""
    x, ids = plugrad.asarray([1.0, 2.0, 3.0]), index_tensor(2, 0)
    with plugrad.use("cpu"):
        results = [
            plugrad.take(x, [2, 0]),
            plugrad.take([1.0, 2.0, 3.0], ids),
            plugrad.take_along_axis([1.0, 2.0, 3.0], ids),
            plugrad.boolean_mask(x, [False, True, True]),
            plugrad.unsorted_segment_sum([1.0, 2.0], ids, 3),
            plugrad.where(x > 1, 1.0, 0),
            plugrad.where([True, False, True], x, 0),
        ]
    assert {y.device for y in results} == {f"{backend}:0"}


def _with_assignment(x, places):
    y = +x
    y[places] = 9.0
    return y


OPS_WITH_INDICES = {
    "take": lambda x, places: plugrad.take(x, places, axis=0),
    "take in batches": lambda x, places: plugrad.take(x[None], places[None], axis=1, batch_dims=1),
    "take_along_axis": lambda x, places: plugrad.take_along_axis(x, places, axis=0),
    "x[places]": lambda x, places: x[places],
    "x[place]": lambda x, places: x[places[0]],
    "gather_nd": lambda x, places: plugrad.gather_nd(x, places[:, None]),
    "gradient of take": lambda x, places: plugrad.grad(
        lambda x: plugrad.sum(plugrad.take(x, places, axis=0))
    )(x),
    "scatter_nd": lambda x, places: plugrad.scatter_nd(places[:, None], [9.0], (3,)),
    "tensor_scatter_update": lambda x, places: plugrad.tensor_scatter_update(
        x, places[:, None], [9.0]
    ),
    "sparse_to_dense": lambda x, places: plugrad.sparse_to_dense(places, [9.0], (3,)),
    "x[places] = 9": _with_assignment,
    "crop_and_resize": lambda x, places: plugrad.image.crop_and_resize(
        plugrad.reshape(x, (3, 1, 1, 1)), [[0.0, 0.0, 0.0, 0.0]], places, (1, 1)
    ),
    "unsorted_segment_sum": lambda x, places: plugrad.unsorted_segment_sum([9.0], places, 3),
    "one_hot": lambda x, places: plugrad.one_hot(places, 3),
    "bincount": lambda x, places: plugrad.bincount(places, size=3),
    "confusion_matrix": lambda x, places: plugrad.confusion_matrix(places, places, 3),
    "in_top_k": lambda x, places: plugrad.in_top_k(x[None], places),
}
OPS_WITH_CLASS_LABELS = {
    "unsorted_segment_sum",
    "one_hot",
    "bincount",
    "confusion_matrix",
    "in_top_k",
}
"""The ops whose integers are labels: others than the known ones are dropped everywhere."""
WRITING_OPS = {"tensor_scatter_update", "x[places] = 9"}
LARGE_INDICES = [
    *(
        (dtype, 2**bits - 1)
        for dtype, bits in (("uint8", 8), ("uint16", 16), ("uint32", 32), ("uint64", 64))
    ),
    ("uint32", 2**31),
    ("uint64", 2**32),
    ("uint64", 2**63),
    *(("int64", place) for place in (2**31, 2**32, 2**32 + 1, -(2**32), 2**63 - 1, -(2**63))),
]


@pytest.mark.parametrize("name", OPS_WITH_INDICES)
@pytest.mark.rows(("dtype", "place"), LARGE_INDICES)
def test_no_position_wraps_around(name, dtype, place, backend):
    """The largest index of an unsigned dtype is out of range; it does not become -1."""
    if getattr(plugrad, dtype) not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no {dtype}")
    op, x = OPS_WITH_INDICES[name], plugrad.asarray([5.0, 6.0, 7.0])
    near = plugrad.asarray(np.array([2], dtype))
    same = op(x, plugrad.asarray(np.array([2], "int32")))
    assert op(x, near).tolist() == same.tolist()
    far = plugrad.asarray(np.array([place], dtype))
    if backend == "cpu" and name not in OPS_WITH_CLASS_LABELS:
        with pytest.raises(TensorIndexError, match=r"is out of range|is not in \["):
            op(x, far)
        return
    found = op(x, far).numpy()
    if name in WRITING_OPS:
        assert found.tolist() == [5, 6, 7]
    else:
        assert not found.any()


@pytest.mark.parametrize("name", sorted(OPS_WITH_INDICES.keys() - OPS_WITH_CLASS_LABELS))
def test_debug_finds_positions_out_of_range_on_devices(name, backend):
    x, far = plugrad.asarray([5.0, 6.0, 7.0]), index_tensor(3)
    with (
        plugrad.config.override("debug", True),
        pytest.raises(TensorIndexError, match=r"3 (is out of range|is not in \[)"),
    ):
        OPS_WITH_INDICES[name](x, far)


@pytest.mark.parametrize("name", ["take", "gather_nd", "scatter_nd", "tensor_scatter_update"])
def test_compiled_functions_check_positions_as_others_do(name, backend):
    op = plugrad.jit(OPS_WITH_INDICES[name])
    x = plugrad.asarray([5.0, 6.0, 7.0])
    expected = op(x, index_tensor(2)).tolist()
    assert expected == OPS_WITH_INDICES[name](x, index_tensor(2)).tolist()
    for place in (3, -4, 2**31 - 1):
        if backend == "cpu":
            with pytest.raises(TensorIndexError, match=f"index {place} is out of range"):
                op(x, index_tensor(place))
        else:
            found = op(x, index_tensor(place)).tolist()
            assert found == ([5, 6, 7] if name in WRITING_OPS else [0] * len(found))
    assert op(x, index_tensor(2)).tolist() == expected


def test_the_check_finds_positions_that_wrap_around(monkeypatch):
    """A cast of indices to int32 makes the test above fail."""
    from plugrad.ops import indexing
    from plugrad.ops.arguments import cast
    from plugrad.types.dtype import int32

    monkeypatch.setattr(indexing, "as_signed", lambda x: cast(x, int32))
    with plugrad.use("cpu"), pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_no_position_wraps_around("take", "uint32", 2**32 - 1, "cpu")
