"""What positions may be: integers, in range, from anywhere; and what is refused."""

import numpy as np
import pytest

import plugrad
from families.case import Refusal
from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    AxisError,
    DTypeError,
    ShapeError,
    TensorIndexError,
)


def numbers(*shape):
    return plugrad.ones(shape)


REFUSALS = [
    Refusal(lambda: plugrad.take([1.0], [0.5]), DTypeError, ["take", "float32", "int32"]),
    Refusal(lambda: plugrad.take([1.0], [True]), DTypeError, ["take", "bool", "integers"]),
    Refusal(lambda: plugrad.take(numbers(2, 3), [0], axis=2), AxisError, ["axis=2", "rank 2"]),
    Refusal(lambda: plugrad.take(numbers(2, 3), [0]), AxisError, ["axis"]),
    Refusal(
        lambda: plugrad.take(numbers(2), [0, 2]),
        TensorIndexError,
        ["take", "index 2", "axis 0", "size 2"],
    ),
    Refusal(
        lambda: plugrad.take(numbers(2, 3), [-4], axis=1),
        TensorIndexError,
        ["index -4", "axis 1", "size 3"],
    ),
    Refusal(lambda: plugrad.take(numbers(0), [0]), TensorIndexError, ["index 0", "size 0"]),
    Refusal(
        lambda: plugrad.take(numbers(2, 3), [[0], [0], [0]], axis=1, batch_dims=1),
        ShapeError,
        ["GatherV2", "batch_dims=1", "(2, 3)", "(3, 1)"],
    ),
    Refusal(
        lambda: plugrad.take(numbers(2, 2, 2), [[[1, 0]]], axis=2, batch_dims=3),
        ShapeError,
        ["batch_dims=3", "axis 2"],
    ),
    Refusal(
        lambda: plugrad.take(numbers(2, 3), [[0], [0]], axis=1, batch_dims=0.5),
        ArgumentError,
        ["take", "batch_dims=0.5", "integer"],
    ),
    Refusal(
        lambda: plugrad.take_along_axis(numbers(2, 3), [0]),
        ShapeError,
        ["take_along_axis", "(1,)", "(2, 3)"],
    ),
    Refusal(
        lambda: plugrad.take_along_axis(numbers(2, 3), np.zeros((3, 1), "int32")),
        ShapeError,
        ["(2,)", "(3,)"],
    ),
    Refusal(
        lambda: plugrad.take_along_axis(numbers(2), [2]), TensorIndexError, ["index 2", "size 2"]
    ),
    Refusal(
        lambda: plugrad.take_along_axis(numbers(2), [0.5]),
        DTypeError,
        ["take_along_axis", "float32"],
    ),
    Refusal(
        lambda: plugrad.take_along_axis(numbers(2), [0], axis=1), AxisError, ["axis=1", "rank 1"]
    ),
    Refusal(lambda: plugrad.gather_nd(numbers(2, 3), [0.5]), DTypeError, ["gather_nd", "float32"]),
    Refusal(
        lambda: plugrad.gather_nd(numbers(2), [[0, 0]]),
        ShapeError,
        ["GatherNd", "(1, 2)", "(2,)", "1 coordinates"],
    ),
    Refusal(
        lambda: plugrad.gather_nd(numbers(2, 3), [[1, 2], [0, -4]]),
        TensorIndexError,
        ["gather_nd", "index -4", "axis 1", "size 3"],
    ),
    Refusal(lambda: plugrad.gather_nd(numbers(2), 0), ShapeError, ["GatherNd", "()", "last axis"]),
    Refusal(lambda: plugrad.nonzero(1.0), ShapeError, ["nonzero", "0-d"]),
    Refusal(
        lambda: plugrad.boolean_mask([1.0], [1]), DTypeError, ["boolean_mask", "int32", "bool"]
    ),
    Refusal(lambda: plugrad.boolean_mask(numbers(2), True), ShapeError, ["boolean_mask", "0-d"]),
    Refusal(
        lambda: plugrad.boolean_mask(numbers(2, 3), [True] * 2, axis=1),
        TensorIndexError,
        ["(2,)", "(2, 3)"],
    ),
    Refusal(lambda: plugrad.boolean_mask(numbers(2), [True] * 2, axis=1), AxisError, ["axis=1"]),
    Refusal(lambda: plugrad.one_hot([0.5], 3), DTypeError, ["one_hot", "float32", "int32"]),
    Refusal(
        lambda: plugrad.one_hot([0], -1), ArgumentValueError, ["one_hot", "depth=-1", "0 or more"]
    ),
    Refusal(lambda: plugrad.one_hot([0], 1.5), ArgumentError, ["one_hot", "depth=1.5", "integer"]),
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
        lambda: plugrad.unsorted_segment_sum(numbers(2), [0, 1], 2.5),
        ArgumentError,
        ["num_segments=2.5"],
    ),
    Refusal(
        lambda: plugrad.unsorted_segment_sum(numbers(2), [0, 2**40], 2),
        ArgumentValueError,
        ["segment_ids", "int32"],
    ),
    Refusal(
        lambda: plugrad.unsorted_segment_sum(numbers(1), np.array([2**40]), 2),
        TensorIndexError,
        ["1099511627776", "int32"],
    ),
    Refusal(
        lambda: plugrad.unsorted_segment_sum(numbers(2), [0.0, 1.0], 2),
        DTypeError,
        ["segment_ids", "float32"],
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_bad_input(refusal, backend):
    refusal.check()


def on_device(*positions):
    return plugrad.asarray(np.array(positions, "int32"))


def test_positions_out_of_range(backend):
    """The cpu raises; a backend that would have to wait for its device reads zeros instead."""
    x = plugrad.asarray([1.0, 2.0, 3.0])
    if backend == "cpu":
        with pytest.raises(TensorIndexError, match="index 3 is out of range for axis 0 of size 3"):
            plugrad.take(x, on_device(0, 3))
    else:
        far = on_device(3, -1, 1, 2**30, -4, -(2**31))
        assert plugrad.take(x, far).tolist() == [0, 3, 2, 0, 0, 0]
        gradient = plugrad.grad(lambda x: plugrad.sum(plugrad.take(x, far)))(x)
        assert gradient.tolist() == [0, 1, 1]
        square, each = plugrad.ones((2, 2)), plugrad.reshape(on_device(2, 0, -3, -1), (2, 2))
        gradient = plugrad.grad(lambda x: plugrad.sum(plugrad.take_along_axis(x, each)))(square)
        assert gradient.tolist() == [[1, 0], [0, 1]]  # and nothing from one row in the other


def test_coordinates_out_of_range(backend):
    """The same for rows of coordinates: what is read there is 0, and what is written is lost."""
    if backend == "cpu":
        pytest.skip("the cpu raises")
    x = plugrad.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    far = plugrad.reshape(on_device(0, 3, 1, -1, -3, 0, 2**30, 2**30, 0, 1), (5, 2))
    lost = plugrad.asarray([10.0, 20.0, 30.0, 40.0, 50.0])
    assert plugrad.gather_nd(x, far).tolist() == [0, 6, 0, 0, 2]
    assert plugrad.scatter_nd(far, lost, (2, 3)).tolist() == [[0, 50, 0], [0, 0, 20]]
    assert plugrad.tensor_scatter_update(x, far, lost).tolist() == [[1, 50, 3], [4, 5, 20]]
    assert plugrad.sparse_to_dense(far, lost, (2, 3), -1.0).tolist() == [[-1, 50, -1], [-1, -1, 20]]
    gradient = plugrad.grad(lambda x: plugrad.sum(plugrad.gather_nd(x, far)))(x)
    assert gradient.tolist() == [[0, 1, 0], [0, 0, 1]]


def test_positions_out_of_range_in_batches_and_coordinates():
    with plugrad.use("cpu"):
        x = numbers(2, 3)
        with pytest.raises(TensorIndexError, match=r"GatherV2: index 3 .* axis 1 of size 3"):
            plugrad.take(x, plugrad.reshape(on_device(0, 3), (2, 1)), axis=1, batch_dims=1)
        with pytest.raises(TensorIndexError, match=r"GatherNd: index -4 .* axis 1 of size 3"):
            plugrad.gather_nd(x, plugrad.reshape(on_device(1, 2, 0, -4), (2, 2)))


def test_literals_go_where_the_tensor_is(backend):
    """Also when another backend is active."""
    x, ids = plugrad.asarray([1.0, 2.0, 3.0]), on_device(2, 0)
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
