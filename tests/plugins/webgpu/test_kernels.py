"""Every kernel against NumPy, on the shapes where this backend's schedules differ."""

import itertools

import numpy as np
import pytest

from plugrad.extend import bool_, float32, int32, uint32
from plugrad.kernels import (
    activation,
    binary,
    creation,
    indexing,
    linalg,
    movement,
    normalization,
    reduction,
    scatter,
    unary,
)

SHAPES = [(), (1,), (3,), (4,), (5, 7), (4, 8), (2, 3, 5), (0,), (2, 0, 3), (1030,)]
BROADCAST_SHAPES = [
    ((3, 4), (4,)),
    ((3, 5), (5,)),
    ((3, 5), (3, 1)),
    ((3, 8), (3, 1)),
    ((), (2, 3)),
    ((2, 3, 4, 5), (3, 1, 5)),
    ((2, 1, 4), (1, 3, 1)),
    ((5, 1), (1, 7)),
    ((2, 0), (2, 1)),
    ((1, 1), (1,)),
]


def random_float32(rng, shape):
    return rng.standard_normal(shape).astype(np.float32)


def assert_close(actual, expected, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_unary_shapes(run, rng, shape):
    x = random_float32(rng, shape)
    assert_close(run(unary.exp, x), np.exp(x))
    assert_close(run(activation.relu, x), np.maximum(x, 0))


def test_unary_of_integers(run, rng):
    x = rng.integers(-9, 9, 37).astype(np.int32)
    for kernel, f in (
        (unary.abs, np.abs),
        (unary.negative, np.negative),
        (unary.sign, np.sign),
        (unary.square, np.square),
        (unary.floor, np.asarray),
        (activation.relu, lambda x: np.maximum(x, 0)),
        (activation.relu6, lambda x: np.clip(x, 0, 6)),
    ):
        np.testing.assert_array_equal(run(kernel, x), f(x))
    np.testing.assert_array_equal(
        run(unary.clip_by_value, x, clip_value_min=-2, clip_value_max=3), np.clip(x, -2, 3)
    )
    np.testing.assert_array_equal(run(unary.step, x, alpha=0), (x > 0).astype(np.int32))


def test_kernel_attributes(run, rng):
    x = random_float32(rng, (3, 5))
    assert_close(run(activation.leaky_relu, x, alpha=0.2), np.where(x > 0, x, np.float32(0.2) * x))
    assert_close(run(activation.leaky_relu, x, alpha=0.3), np.where(x > 0, x, np.float32(0.3) * x))
    assert_close(run(unary.step, x, alpha=0.5), np.where(x > 0, 1, 0.5))
    clipped = run(unary.clip_by_value, x, clip_value_min=-0.5, clip_value_max=0.25)
    assert_close(clipped, np.clip(x, -0.5, 0.25))


@pytest.mark.parametrize("target", [float32, int32, uint32, bool_])
def test_casts(run, target):
    for values in (
        np.array([0.0, -0.0, 1.5, 2.9, 7.0], np.float32),
        np.array([0, 1, 2, 300], np.int32),
        np.array([0, 1, 2, 300], np.uint32),
        np.array([True, False, True]),
    ):
        np.testing.assert_array_equal(run(unary.cast, values, dtype=target), values.astype(target))


@pytest.mark.parametrize(("a", "b"), BROADCAST_SHAPES, ids=str)
def test_broadcasting(run, rng, a, b):
    x, y = random_float32(rng, a), random_float32(rng, b)
    assert_close(run(binary.add, x, y), x + y)
    assert_close(run(binary.subtract, y, x), y - x)
    np.testing.assert_array_equal(run(binary.less, x, y), x < y)
    condition = rng.integers(0, 2, a).astype(bool)
    assert_close(run(binary.select, condition, x, y), np.where(condition, x, y))


def test_integer_arithmetic(run, rng):
    a = rng.integers(-50, 50, 997).astype(np.int32)
    b = rng.integers(-8, 8, 997).astype(np.int32)
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(run(binary.floor_divide, a, b), np.floor_divide(a, b))
        np.testing.assert_array_equal(run(binary.remainder, a, b), np.remainder(a, b))
    np.testing.assert_array_equal(run(binary.power, a, np.abs(b)), a ** np.abs(b))
    np.testing.assert_array_equal(run(binary.maximum, a, b), np.maximum(a, b))
    lowest = np.array([-(2**31)], np.int32)
    np.testing.assert_array_equal(run(binary.floor_divide, lowest, np.int32([-1])), lowest)


def test_logical_kernels(run):
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    np.testing.assert_array_equal(run(binary.logical_and, a, b), a & b)
    np.testing.assert_array_equal(run(binary.logical_or, a, b), a | b)
    np.testing.assert_array_equal(run(binary.logical_xor, a, b), a ^ b)
    np.testing.assert_array_equal(run(unary.logical_not, a), ~a)
    np.testing.assert_array_equal(run(binary.less, a, b), a < b)


def test_other_binary_kernels(run, rng):
    x, y = random_float32(rng, (3, 4)), random_float32(rng, (3, 4))
    assert_close(run(binary.add_n, x, y, x), x + y + x)
    assert_close(run(binary.squared_difference, x, y), (x - y) ** 2)
    assert_close(run(activation.prelu, x, y[0]), np.where(x > 0, x, x * y[0]))
    assert_close(run(activation.elu_gradient, x, y), np.where(y >= 0, x, x * (y + 1)))


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((10,), (0,)),
        ((1000,), (0,)),
        ((7, 5), (0,)),
        ((7, 5), (1,)),
        ((8, 8), (0,)),
        ((8, 8), (0, 1)),
        ((3, 4, 5, 6), (0, 2)),
        ((3, 4, 5, 6), (1, 3)),
        ((2, 1, 3), (1,)),
        ((300, 64), (0,)),
        ((3, 10007), (1,)),
        ((1,), (0,)),
        ((), ()),
        ((2, 3), ()),
    ],
    ids=str,
)
def test_reductions(run, rng, shape, axes):
    x = random_float32(rng, shape)
    for keep in (False, True):
        assert_close(
            run(reduction.sum, x, axis=axes, keep_dims=keep),
            x.sum(axes, np.float64, keepdims=keep),
            atol=1e-4,
        )
    assert_close(run(reduction.mean, x, axis=axes), x.mean(axes, np.float64), atol=1e-5)
    np.testing.assert_array_equal(run(reduction.max, x, reduction_indices=axes), x.max(axes))
    np.testing.assert_array_equal(run(reduction.min, x, axis=axes), x.min(axes))
    assert_close(run(reduction.prod, x, axis=axes), x.prod(axes, dtype=np.float64), rtol=1e-3)
    np.testing.assert_array_equal(run(reduction.all, x > -1, axis=axes), (x > -1).all(axes))
    np.testing.assert_array_equal(run(reduction.any, x > 1, axis=axes), (x > 1).any(axes))
    n = rng.integers(-(10**6), 10**6, shape).astype(np.int32)
    np.testing.assert_array_equal(run(reduction.sum, n, axis=axes), n.sum(axes, dtype=np.int32))
    for axis in axes:
        np.testing.assert_array_equal(run(reduction.argmax, x, axis=axis), x.argmax(axis))
        np.testing.assert_array_equal(run(reduction.argmin, n, axis=axis), n.argmin(axis))


@pytest.mark.parametrize("shape", [(65,), (300_003,), (3, 700), (2, 7, 259)], ids=str)
def test_workgroups_of_gpus_join_their_sums(run, rng, monkeypatch, shape):
    """A long row needs few dispatches, because the invocations of a workgroup combine their partial sums."""
    recorded = []
    record = run.device.record

    def record_and_note(plan, operands):
        recorded.append(plan)
        record(plan, operands)

    monkeypatch.setattr(run.device, "is_software", False)
    monkeypatch.setattr(run.device, "record", record_and_note)
    last = (len(shape) - 1,)
    n = rng.integers(-128, 128, shape)
    x = n.astype(np.float32)
    np.testing.assert_array_equal(run(reduction.sum, x, axis=last), n.sum(-1))
    assert len(recorded) <= 2
    assert_close(run(reduction.mean, x, axis=last), n.mean(-1))
    for dtype in (np.int8, np.int64):
        of_dtype = n.astype(dtype)
        np.testing.assert_array_equal(run(reduction.sum, of_dtype, axis=last), n.sum(-1, dtype))
        np.testing.assert_array_equal(run(reduction.min, of_dtype, axis=last), n.min(-1))
    x.flat[-3] = np.nan
    expected = x.max(-1)
    np.testing.assert_array_equal(run(reduction.max, x, reduction_indices=last), expected)


def test_reductions_of_empty_arrays(run):
    x = np.zeros((2, 0, 3), np.float32)
    np.testing.assert_array_equal(run(reduction.sum, x, axis=(1,)), np.zeros((2, 3)))
    np.testing.assert_array_equal(run(reduction.prod, x, axis=(0, 1, 2)), 1)
    np.testing.assert_array_equal(run(reduction.mean, x, axis=(1,)), np.full((2, 3), np.nan))
    assert run(reduction.sum, x, axis=(0,)).shape == (0, 3)
    assert run(reduction.max, x, reduction_indices=(0,)).shape == (0, 3)


@pytest.mark.parametrize("is_software", [True, False])
@pytest.mark.parametrize(
    ("rows", "depth", "columns"),
    [
        (1, 1, 1),
        (3, 5, 7),
        (8, 8, 8),
        (65, 66, 67),
        (100, 30, 4),
        (5, 1000, 3),
        (2, 3, 0),
        (2, 0, 3),
    ],
)
def test_matmul_schedules(run, rng, monkeypatch, is_software, rows, depth, columns):
    monkeypatch.setattr(run.device, "is_software", is_software)
    for batch, t_a, t_b in itertools.product([(), (3,)], [False, True], [False, True]):
        a = random_float32(rng, (*batch, depth, rows) if t_a else (*batch, rows, depth))
        b = random_float32(rng, (*batch, columns, depth) if t_b else (*batch, depth, columns))
        expected = (a.swapaxes(-1, -2) if t_a else a) @ (b.swapaxes(-1, -2) if t_b else b)
        assert_close(
            run(linalg.matmul, a, b, transpose_a=t_a, transpose_b=t_b), expected, 1e-4, 1e-4
        )


@pytest.mark.parametrize(
    ("a", "b"),
    [((2, 1), (1, 3)), ((2, 3), ()), ((), (4,)), ((3,), (2, 1)), ((0,), (1,)), ((1,), (2,))],
)
def test_matmul_broadcasting(run, rng, a, b):
    x, y = random_float32(rng, (*a, 5, 6)), random_float32(rng, (*b, 6, 4))
    assert_close(run(linalg.matmul, x, y), x @ y, 1e-4, 1e-5)


def test_matmul_of_integers(run, rng):
    a, b = (rng.integers(-99, 99, s).astype(np.int32) for s in ((5, 300), (300, 6)))
    np.testing.assert_array_equal(run(linalg.matmul, a, b), a @ b)


@pytest.mark.parametrize("is_software", [True, False])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((5,), 0),
        ((3, 7), 1),
        ((40, 7), 1),
        ((3, 7), 0),
        ((2, 70, 5), 1),
        ((2, 1000), 1),
        ((0, 3), 1),
        ((3, 0), 1),
    ],
)
def test_softmax(run, rng, monkeypatch, is_software, shape, axis):
    monkeypatch.setattr(run.device, "is_software", is_software)
    x = 10 * random_float32(rng, shape)
    if 0 in shape:
        assert run(normalization.softmax, x, dim=axis).shape == shape
        return
    shifted = x.astype(np.float64) - x.max(axis, keepdims=True)
    total = np.exp(shifted).sum(axis, keepdims=True)
    assert_close(run(normalization.softmax, x, dim=axis), np.exp(shifted) / total)
    assert_close(run(normalization.log_softmax, x, axis=axis), shifted - np.log(total), 1e-5, 1e-5)


def test_movement(run, rng):
    x = random_float32(rng, (2, 3, 4, 5))
    same = np.testing.assert_array_equal
    for perm in itertools.permutations(range(4)):
        same(run(movement.transpose, x, perm=perm), x.transpose(perm))
    same(run(movement.reshape, x, shape=(6, 20)), x.reshape(6, 20))
    same(run(movement.expand_dims, x, dim=2), np.expand_dims(x, 2))
    same(run(movement.slice, x, begin=(0, 1, 0, 2), size=(2, 2, 4, 3)), x[:, 1:3, :, 2:5])
    sliced = {"begin": (1, 2, 3, 4), "end": (-1, 0, -1, 0), "strides": (-1, -1, -2, -3)}
    view = x[::-1, 2:0:-1, ::-2, 4:0:-3]
    same(run(movement.strided_slice, x, **sliced), view)
    gradient = np.zeros_like(x)
    gradient[::-1, 2:0:-1, ::-2, 4:0:-3] = view
    same(run(movement.strided_slice_gradient, view, shape=x.shape, **sliced), gradient)
    same(run(movement.reverse, x, dims=(1, 3)), x[:, ::-1, :, ::-1])
    same(run(movement.tile, x, reps=(1, 2, 3, 2)), np.tile(x, (1, 2, 3, 2)))
    same(run(movement.tile, x, reps=(1, 0, 1, 1)), np.tile(x, (1, 0, 1, 1)))
    same(
        run(movement.broadcast_to, x[:, :1], shape=(7, 2, 3, 4, 5)),
        np.broadcast_to(x[:, :1], (7, 2, 3, 4, 5)),
    )
    paddings = ((0, 0), (1, 2), (0, 3), (4, 4))
    same(
        run(movement.pad, x, paddings=paddings, constant_value=1.5),
        np.pad(x, paddings, constant_values=1.5),
    )
    for axis in range(4):
        parts = np.split(x, [1], axis)
        same(run(movement.concat, *parts, axis=axis), x)
        sizes = (1, x.shape[axis] - 1)
        for actual, part in zip(
            run(movement.split, x, num_or_size_splits=sizes, axis=axis), parts, strict=True
        ):
            same(actual, part)
        for i, actual in enumerate(run(movement.unpack, x, axis=axis)):
            same(actual, x.take(i, axis))
    for axis in range(5):
        same(run(movement.pack, x, x + 1, axis=axis), np.stack([x, x + 1], axis))


def test_movement_of_empty_arrays(run):
    x = np.zeros((2, 0, 3), np.float32)
    assert run(movement.transpose, x, perm=(2, 1, 0)).shape == (3, 0, 2)
    assert run(movement.concat, x, x, axis=1).shape == (2, 0, 3)
    assert run(movement.unpack, x, axis=1) == []
    padded = run(movement.pad, x, paddings=((0, 0), (1, 1), (0, 0)), constant_value=2)
    np.testing.assert_array_equal(padded, np.full((2, 2, 3), 2))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gather(run, rng, axis):
    x = random_float32(rng, (3, 4, 8))
    indices = rng.integers(0, x.shape[axis], (2, 3)).astype(np.int32)
    np.testing.assert_array_equal(
        run(indexing.gather, x, indices, axis=axis), x.take(indices, axis)
    )


def test_gather_in_batches(run, rng):
    x = random_float32(rng, (3, 5, 4))
    indices = rng.integers(0, 5, (3, 2)).astype(np.int32)
    expected = np.stack([x[i].take(indices[i], 0) for i in range(3)])
    np.testing.assert_array_equal(run(indexing.gather, x, indices, axis=1, batch_dims=1), expected)


def test_gather_counts_from_the_end_and_gives_zero_out_of_range(run):
    x = np.arange(1, 4, dtype=np.float32)
    indices = np.int32([2, 3, -1, -3, -4, 10**9, -(2**31)])
    np.testing.assert_array_equal(run(indexing.gather, x, indices, axis=0), [3, 0, 3, 1, 0, 0, 0])


def test_one_hot(run):
    indices = np.int32([[0, 2], [3, -1]])
    expected = np.where(np.arange(3) == indices[..., None], 5.0, -1.0)
    values = {"depth": 3, "on_value": 5.0, "off_value": -1.0, "dtype": float32}
    np.testing.assert_array_equal(run(indexing.one_hot, indices, **values), expected)
    hot = {"depth": 3, "on_value": True, "off_value": False, "dtype": bool_}
    np.testing.assert_array_equal(run(indexing.one_hot, indices, **hot), expected == 5)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_segment_sum(run, rng, dtype):
    x = rng.integers(-9, 9, (500, 3)).astype(dtype)
    ids = rng.integers(-1, 6, 500).astype(np.int32)
    expected = np.zeros((5, 3), dtype)
    inside = (ids >= 0) & (ids < 5)
    np.add.at(expected, ids[inside], x[inside])
    np.testing.assert_array_equal(
        run(indexing.unsorted_segment_sum, x, ids, num_segments=5), expected
    )


@pytest.mark.parametrize("inner", [1, 3, 4])
@pytest.mark.parametrize("segments", [7, 3000])
def test_sums_of_many_elements_do_not_depend_on_the_run(run, rng, inner, segments):
    x = random_float32(rng, (20_000, inner))
    ids = rng.integers(-1, segments + 1, 20_000).astype(np.int32)
    ids[rng.random(20_000) < 0.5] = 5  # a segment that is longer than a block
    expected = np.zeros((segments + 2, inner))
    np.add.at(expected, ids, x)
    found = run(indexing.unsorted_segment_sum, x, ids, num_segments=segments)
    assert_close(found, expected[:segments], atol=1e-4)
    again = run(indexing.unsorted_segment_sum, x, ids, num_segments=segments)
    np.testing.assert_array_equal(found, again)


def test_large_unsigned_positions_are_out_of_range(run):
    x = np.arange(1, 4, dtype=np.float32)
    far = np.uint32([2, 2**32 - 1, 2**31])
    np.testing.assert_array_equal(run(indexing.gather, x, far, axis=0), [3, 0, 0])
    np.testing.assert_array_equal(run(indexing.gather_nd, x, far[:, None]), [3, 0, 0])
    np.testing.assert_array_equal(run(scatter.scatter_nd, far, x, shape=(3,)), [0, 0, 1])


def random_complex64(rng, *shape):
    return (random_float32(rng, shape) + 1j * random_float32(rng, shape)).astype(np.complex64)


@pytest.mark.parametrize("inner", [1, 2, 3])
def test_complex_numbers_at_positions(run, rng, inner):
    x, updates = random_complex64(rng, 5, inner), random_complex64(rng, 4, inner)
    places = np.int32([[3], [0], [-2], [7]])
    expected = x.copy()
    expected[[0, 3]] = updates[[1, 2]]
    same = np.testing.assert_array_equal
    same(run(scatter.tensor_scatter_update, x, places, updates), expected)
    sums = np.zeros_like(x)
    sums[0], sums[3] = updates[1], updates[0] + updates[2]
    assert_close(run(scatter.scatter_nd, places, updates, shape=x.shape), sums)
    same(run(indexing.gather_nd, x, np.int32([[4], [-5]])), x[[4, 0]])
    value, rest = np.complex64(1 + 2j), np.complex64(3 - 4j)
    dense = run(scatter.sparse_to_dense, np.int32([1, -1]), value, rest, output_shape=(4,))
    same(dense, [rest, value, rest, value])


@pytest.mark.parametrize("size", [3, 6, 8])
@pytest.mark.parametrize("draw", [random_float32, lambda rng, shape: random_complex64(rng, *shape)])
def test_elements_that_are_repeated(run, rng, draw, size):
    for shape in ((1,), (5, 1), (2, 1, 3, 1), (3, 1, size), ()):
        out = (*shape[:-1], size) if shape != (2, 1, 3, 1) else (2, 4, 3, size)
        x = draw(rng, shape)
        expected = np.broadcast_to(x, out)
        np.testing.assert_array_equal(run(movement.broadcast_to, x, shape=out), expected)


def test_complex_matrices(run, rng):
    x, y = random_complex64(rng, 3, 4), random_complex64(rng, 4, 5)
    assert_close(run(linalg.einsum, x, y, equation="ij,jk->ki"), (x @ y).T)
    assert_close(run(linalg.einsum, x, x, equation="ij,ij->"), (x * x).sum())
    assert_close(run(linalg.einsum, x, equation="ij->j"), x.sum(0))
    assert_close(run(linalg.einsum, x, y, equation="ij,kl->ijkl"), np.multiply.outer(x, y))
    band = run(linalg.band_part, x, np.int32(0), np.int32(1))
    np.testing.assert_array_equal(band, np.triu(np.tril(x, 1)))
    np.testing.assert_array_equal(run(linalg.diag_part, run(linalg.diag, x)), x)


def test_more_updates_than_one_dimension_of_a_grid_has_groups(run):
    x = np.arange(4_300_000, dtype=np.int32)
    reverse = x[::-1, None].copy()
    np.testing.assert_array_equal(run(scatter.scatter_nd, reverse, x, shape=x.shape), x[::-1])
    updated = run(scatter.tensor_scatter_update, x * 0, reverse, x)
    np.testing.assert_array_equal(updated, x[::-1])


def test_creation(run):
    same = np.testing.assert_array_equal
    same(run(creation.fill, shape=(2, 5), value=1.5, dtype=float32), np.full((2, 5), 1.5))
    same(run(creation.fill, shape=(), value=-3, dtype=int32), -3)
    same(run(creation.fill, shape=(3,), value=True, dtype=bool_), [True] * 3)
    same(run(creation.fill, shape=(0, 2), value=True, dtype=bool_), np.zeros((0, 2)))
    same(run(creation.fill, shape=(1,), value=float("nan"), dtype=float32), [np.nan])
    same(run(creation.zeros_like, np.ones((3, 3), np.float32)), np.zeros((3, 3)))
    same(run(creation.ones_like, np.zeros((3, 3), np.int32)), np.ones((3, 3)))
    ints = run(creation.range, start=7, stop=-5, step=-3, dtype=int32)
    same(ints, np.arange(7, -5, -3))
    assert_close(
        run(creation.range, start=0.0, stop=1.0, step=0.1, dtype=float32), np.arange(0, 1, 0.1)
    )
    assert_close(run(creation.linspace, start=0.0, stop=1.0, num=11), np.linspace(0, 1, 11))
    assert run(creation.linspace, start=0.0, stop=1.0, num=0).shape == (0,)
