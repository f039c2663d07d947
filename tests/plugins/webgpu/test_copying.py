"""Copies by vectors, in chunks and in tiles, as sizes, strides and offsets require."""

import itertools

import numpy as np
import pytest

from plugrad.extend import BackendUnavailable
from plugrad.kernels import movement

SHAPES = [
    (4, 8),
    (5, 7),
    (8, 3),
    (3, 8),
    (12, 16, 4),
    (4, 5, 8),
    (3, 4, 5),
    (8, 4, 2, 12),
    (1, 9, 1),
]
DTYPES = ["float32", "int32", "bool", "complex64"]


def consecutive_numbers(shape, dtype="float32"):
    values = np.arange(np.prod(shape)).reshape(shape)
    return (values % 3 == 0) if dtype == "bool" else values.astype(dtype)


def parameter_id(value):
    return str(value)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=parameter_id)
def test_every_order_of_axes(run, shape, dtype):
    x = consecutive_numbers(shape, dtype)
    for perm in itertools.permutations(range(len(shape))):
        found = run(movement.transpose, x, perm=perm)
        np.testing.assert_array_equal(found, x.transpose(perm), err_msg=str(perm))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(6, 13), (8, 16), (4, 5, 9)], ids=parameter_id)
@pytest.mark.rows("step", [1, 2, 3, -1, -4])
def test_slices_with_steps(run, shape, dtype, step):
    x = consecutive_numbers(shape, dtype)
    rank = len(shape)
    for axis in range(rank):
        begin, end, strides = [0] * rank, list(shape), [1] * rank
        strides[axis] = step
        if step < 0:
            begin[axis], end[axis] = shape[axis] - 1, -1
        attrs = {"begin": tuple(begin), "end": tuple(end), "strides": tuple(strides)}
        found = run(movement.strided_slice, x, **attrs)
        expected = x[tuple(slice(None, None, step if i == axis else 1) for i in range(rank))]
        np.testing.assert_array_equal(found, expected, err_msg=str(axis))


@pytest.mark.parametrize("first", [0, 1, 3, 4])
def test_copies_of_blocks_at_any_offset(run, first):
    x = consecutive_numbers((9, 17))
    found = run(movement.slice, x, begin=(first, first), size=(5, 11))
    np.testing.assert_array_equal(found, x[first : first + 5, first : first + 11])
    paddings = ((first, 2), (first, 1))
    found = run(movement.pad, x, paddings=paddings, constant_value=-1.0)
    np.testing.assert_array_equal(found, np.pad(x, paddings, constant_values=-1))


@pytest.mark.parametrize("sizes", [(4, 8), (3, 6, 2), (5,)], ids=parameter_id)
@pytest.mark.parametrize("axis", [0, 1])
def test_parts_of_any_size(run, sizes, axis):
    shapes = [(n, 7) if axis == 0 else (7, n) for n in sizes]
    parts = [consecutive_numbers(shape) + 100 * i for i, shape in enumerate(shapes)]
    joined = np.concatenate(parts, axis)
    np.testing.assert_array_equal(run(movement.concat, *parts, axis=axis), joined)
    found = run(movement.split, joined, num_or_size_splits=sizes, axis=axis)
    for a, b in zip(found, parts, strict=True):
        np.testing.assert_array_equal(a, b)


def test_transpose_with_more_workgroups_than_one_grid_row(run):
    x = consecutive_numbers((1100, 1300), "int32")
    np.testing.assert_array_equal(run(movement.transpose, x, perm=(1, 0)), x.T)


@pytest.mark.parametrize("shape", [(0, 8), (8, 0), (4, 0, 4)], ids=parameter_id)
def test_movement_of_empty_arrays(run, shape):
    x = np.zeros(shape, np.float32)
    perm = tuple(reversed(range(len(shape))))
    assert run(movement.transpose, x, perm=perm).shape == shape[::-1]


def test_loops_with_the_most_axes(run):
    for rank in (8, 9):
        x = consecutive_numbers((2,) * rank)
        perm = tuple(reversed(range(rank)))
        np.testing.assert_array_equal(run(movement.transpose, x, perm=perm), x.transpose(perm))
    x = consecutive_numbers((4,) * 8, "int32")
    np.testing.assert_array_equal(
        run(movement.transpose, x, perm=tuple(reversed(range(8)))), x.transpose()
    )


@pytest.mark.parametrize("dtype", ["float32", "complex64", "bool"])
def test_long_runs_of_software_devices_need_no_shader(run, monkeypatch, dtype):
    monkeypatch.setattr(run.device, "is_software", True)
    values = consecutive_numbers((600, 300), dtype)
    x, rows = (
        run.to_device(values),
        run.call(movement.reverse, run.to_device(values), dims=(0,)),
    )  # is recorded
    monkeypatch.setattr(run.device, "record", lambda *_: pytest.fail("a shader runs"))
    joined = run.call(movement.concat, x, rows, axis=0)
    part = run.call(movement.slice, joined, begin=(7, 0), size=(900, 300))
    expected = np.concatenate([values, values[::-1]])
    np.testing.assert_array_equal(run.to_host(joined), expected)
    np.testing.assert_array_equal(run.to_host(part), expected[7:907])


def test_a_long_run_of_another_device_is_refused(run, make_runner):
    other = make_runner()
    x = other.to_device(consecutive_numbers((600, 300)))
    y = run.to_device(consecutive_numbers((1, 300)))
    with pytest.raises(BackendUnavailable, match="another device"):
        run.call(movement.concat, y, x, axis=0)
