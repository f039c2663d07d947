"""Kernels that move, pick and make elements, against NumPy."""

from itertools import permutations

import numpy as np
import pytest

import plugrad
from plugrad.extend import UnsupportedDtype, bool_, float32, int32, int64, string

DTYPES = ["bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8"]
DTYPES += ["uint16", "uint32", "uint64"]


def consecutive_numbers(shape, dtype="float32"):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.rows("perm", [*permutations(range(4))], ids=str)
def test_transpose(run, perm, dtype):
    x = consecutive_numbers((3, 1, 4, 5), dtype)
    np.testing.assert_array_equal(run("Transpose", x, perm=perm), x.transpose(perm))


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "int16"])
@pytest.mark.parametrize(
    "shape", [(1, 1), (17, 33), (100, 3), (64, 64), (0, 5), (2, 37, 19), (39, 70), (7, 35, 101)]
)
def test_transpose_by_tiles(run, shape, dtype):
    x = consecutive_numbers(shape, dtype)
    perm = tuple(reversed(range(len(shape))))
    np.testing.assert_array_equal(run("Transpose", x, perm=perm), x.transpose(perm))


def test_shapes_change_without_a_copy(run):
    x = run.put(consecutive_numbers((2, 6)))
    y = run.functions["Reshape"](x, shape=(3, 4))
    z = run.functions["ExpandDims"](y, dim=1)
    assert x.address == y.address == z.address
    assert z.shape == (3, 1, 4)
    del x, y
    np.testing.assert_array_equal(run.get(z), consecutive_numbers((3, 1, 4)))


def test_large_parts_are_views_until_a_kernel_needs_them_dense(fresh_runner):
    data = consecutive_numbers((3, 100, 120))
    x = fresh_runner.put(data)
    functions, memory = fresh_runner.functions, fresh_runner.backend.memory
    used = memory()
    row = functions["Slice"](x, begin=(1, 10, 0), size=(1, 90, 120), drop=())
    turned = functions["Reverse"](functions["Transpose"](x, perm=(2, 0, 1)), dims=(1,))
    every = functions["StridedSlice"](
        turned, begin=(2, 2, 5), end=(120, -1, 95), strides=(1, -1, 2)
    )
    repeated = functions["BroadcastTo"](every, shape=(2, *every.shape))
    parts = functions["Unpack"](turned, axis=1)
    plane = functions["Slice"](turned, begin=(2, 1, 0), size=(110, 1, 100), drop=(1,))
    assert memory() == used
    assert row.address == x.address + (120 * 100 + 10 * 120) * 4
    twice = functions["Concat"](repeated, repeated, axis=0)  # reads the walk itself
    assert memory().buffers == used.buffers + 1
    held = x.address
    del x
    expected = data.transpose(2, 0, 1)[:, ::-1]
    wanted = expected[2:, ::-1, 5:95:2]
    np.testing.assert_array_equal(fresh_runner.get(twice), np.stack([wanted] * 4))
    np.testing.assert_array_equal(fresh_runner.get(repeated), np.stack([wanted] * 2))
    np.testing.assert_array_equal(fresh_runner.get(every), wanted)
    for i, part in enumerate(parts):
        np.testing.assert_array_equal(fresh_runner.get(part), expected[:, i])
    np.testing.assert_array_equal(fresh_runner.get(plane), expected[2:112, 1])
    np.testing.assert_array_equal(fresh_runner.get(row), data[1:2, 10:])
    np.testing.assert_array_equal(fresh_runner.get(turned), expected)
    assert turned.address != held
    assert not hasattr(turned, "elements")
    del row, part, parts, plane, turned, every, repeated, twice
    assert memory().buffers == 0


def test_small_parts_do_not_keep_the_whole_alive(fresh_runner):
    x = fresh_runner.put(consecutive_numbers((100, 100)))
    row = fresh_runner.functions["Slice"](x, begin=(3, 0), size=(1, 100), drop=())
    del x
    assert fresh_runner.backend.memory().bytes == row.capacity


def test_defaults_are_not_written_to(fresh_runner):
    default = fresh_runner.put(np.zeros((1, 5000), "f4"))
    places, values = fresh_runner.put(np.array([[0, 7]])), fresh_runner.put(np.float32([3]))
    out = fresh_runner.functions["SparseToDense"](places, values, default, output_shape=(1, 5000))
    assert fresh_runner.get(out)[0, 7] == 3
    assert not fresh_runner.get(default).any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_slices(run, dtype):
    x = consecutive_numbers((5, 6, 7), dtype)
    y = run("Slice", x, begin=(1, 0, 2), size=(3, 6, 4), drop=())
    np.testing.assert_array_equal(y, x[1:4, :, 2:6])
    y = run("Slice", x, begin=(1, 3, 2), size=(1, 2, 1), drop=(0, 2))
    np.testing.assert_array_equal(y, x[1, 3:5, 2])
    attrs = {"begin": (4, 1, 6), "end": (-1, 6, 0), "strides": (-2, 2, -3)}
    y = run("StridedSlice", x, **attrs)
    np.testing.assert_array_equal(y, x[4::-2, 1:6:2, 6:0:-3])
    expected = np.zeros_like(x)
    expected[4::-2, 1:6:2, 6:0:-3] = y
    np.testing.assert_array_equal(run("StridedSliceGrad", y, shape=x.shape, **attrs), expected)
    assert run("Slice", x, begin=(0, 0, 0), size=(0, 6, 7), drop=()).shape == (0, 6, 7)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_joining_and_parting(run, axis, dtype):
    x = consecutive_numbers((2, 3, 4), dtype)
    y = np.concatenate([x, x], axis)
    np.testing.assert_array_equal(run("Concat", x, y, axis=axis), np.concatenate([x, y], axis))
    np.testing.assert_array_equal(run("Pack", x, x, axis=axis), np.stack([x, x], axis))
    for actual, expected in zip(run("Unpack", x, axis=axis), np.moveaxis(x, axis, 0), strict=True):
        np.testing.assert_array_equal(actual, expected)
    sizes = (1, 0, x.shape[axis] - 1)
    expected = np.split(x, np.cumsum(sizes)[:-1], axis)
    for actual, part in zip(
        run("SplitV", x, num_or_size_splits=sizes, axis=axis), expected, strict=True
    ):
        np.testing.assert_array_equal(actual, part)


@pytest.mark.parametrize("dtype", DTYPES)
def test_pads_tiles_reversals_and_broadcasts(run, dtype):
    x = consecutive_numbers((2, 3), dtype)
    y = run("PadV2", x, paddings=((1, 0), (2, 3)), constant_value=1)
    np.testing.assert_array_equal(y, np.pad(x, ((1, 0), (2, 3)), constant_values=1))
    np.testing.assert_array_equal(run("Tile", x, reps=(2, 3)), np.tile(x, (2, 3)))
    assert run("Tile", x, reps=(0, 3)).shape == (0, 9)
    np.testing.assert_array_equal(run("Reverse", x, dims=(1,)), x[:, ::-1])
    np.testing.assert_array_equal(run("Reverse", x, dims=(0, 1)), x[::-1, ::-1])
    y = run("BroadcastTo", x[:, None, :1], shape=(4, 2, 5, 3))
    np.testing.assert_array_equal(y, np.broadcast_to(x[:, None, :1], (4, 2, 5, 3)))


def test_scalars_and_empty_arrays_move(run):
    x = np.float32(3)
    assert run("Transpose", x, perm=()) == 3
    assert run("BroadcastTo", x, shape=(2, 2)).tolist() == [[3, 3], [3, 3]]
    assert run("Pack", x, x, axis=0).tolist() == [3, 3]
    assert run("Reverse", np.zeros((0,), np.float32), dims=(0,)).shape == (0,)
    assert run(
        "PadV2", np.zeros((0,), np.float32), paddings=((1, 1),), constant_value=5.0
    ).tolist() == [5, 5]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gather(run, axis, dtype):
    x = consecutive_numbers((4, 5, 6), dtype)
    for indices in (
        np.int32(2),
        np.int32([3, 0, 3]),
        np.array([[0, 1], [2, 3]]),
        np.zeros((0,), np.int32),
    ):
        actual = run("GatherV2", x, indices, axis=axis, batch_dims=0)
        np.testing.assert_array_equal(actual, np.take(x, indices, axis))


def test_gather_in_batches_and_out_of_range(run):
    x, indices = consecutive_numbers((2, 3, 4)), np.int32([[0, 3], [1, 1]])
    actual = run("GatherV2", x, indices, axis=2, batch_dims=1)
    expected = np.stack([np.take(a, i, 1) for a, i in zip(x, indices, strict=True)])
    np.testing.assert_array_equal(actual, expected)
    indices = np.int32([-1, -3, 1, 3, -4, 2**31 - 1, -(2**31)])
    actual = run("GatherV2", x, indices, axis=1, batch_dims=0)
    np.testing.assert_array_equal(actual[:, :3], x[:, [-1, -3, 1]])
    assert not actual[:, 3:].any()


def test_positions_beyond_int32_do_not_wrap_around(run):
    for far in (2**32, 2**32 + 1, -(2**32), 2**63 - 1, -(2**63)):
        indices = np.array([1, far])
        picked = run("GatherV2", np.float32([5, 6]), indices, axis=0, batch_dims=0)
        assert picked.tolist() == [6, 0]
        hot = run("OneHot", indices, depth=2, on_value=1, off_value=0, dtype=int32)
        assert hot.tolist() == [[0, 1], [0, 0]]
        sums = run("UnsortedSegmentSum", np.float32([5, 6]), indices, num_segments=2)
        assert sums.tolist() == [0, 5]


def test_one_hot(run):
    indices = np.array([[0, 2], [-1, 3]])
    y = run("OneHot", indices, depth=3, on_value=5, off_value=-1, dtype=float32)
    expected = np.full((2, 2, 3), -1.0)
    expected[0, 0, 0] = expected[0, 1, 2] = 5
    np.testing.assert_array_equal(y, expected)
    assert run(
        "OneHot", np.int32(1), depth=2, on_value=True, off_value=False, dtype=bool_
    ).tolist() == [False, True]
    assert run("OneHot", indices, depth=0, on_value=1, off_value=0, dtype=int64).shape == (2, 2, 0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8"])
def test_segment_sums(run, dtype):
    x, ids = consecutive_numbers((2, 3, 4), dtype), np.int32([[0, 2, -1], [2, 0, 9]])
    expected = np.zeros((3, 4), dtype)
    for row, segment in zip(x.reshape(6, 4), ids.ravel(), strict=True):
        if 0 <= segment < 3:
            expected[segment] += row
    np.testing.assert_array_equal(run("UnsortedSegmentSum", x, ids, num_segments=3), expected)


@pytest.mark.parametrize("dtype", [*DTYPES, "complex64", "complex128"])
@pytest.mark.parametrize("count", [0, 1, 3, 255, 256, 257, 4096, 4097])
def test_fills_and_slices_around_the_bytes_that_the_host_copies(run, count, dtype):
    made = run.functions["Fill"](run.backend, shape=(count,), value=3, dtype=plugrad.DType(dtype))
    np.testing.assert_array_equal(run.get(made), np.full(count, 3, dtype))
    x = consecutive_numbers((count + 3,), dtype)
    for start in (0, 3):
        found = run("Slice", x, begin=(start,), size=(count,), drop=())
        np.testing.assert_array_equal(found, x[start : start + count])
    assert run("Slice", x, begin=(2,), size=(1,), drop=(0,)) == x[2]


def test_programs_fill_and_slice_at_each_call():
    with plugrad.use("wasm"):
        function = plugrad.jit(lambda x: (plugrad.zeros(3) + x[1], x[1:3] * 2, plugrad.sum(x)))
        for first in (1.0, 5.0):
            x = plugrad.arange(4, dtype="float32") + first
            y, z, total = function(x)
            assert y.numpy().tolist() == [first + 1] * 3
            assert z.numpy().tolist() == [2 * first + 2, 2 * first + 4]
            assert total.item() == 4 * first + 6


@pytest.mark.parametrize("count", [3, 3000])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_fills_with_complex_numbers_whose_zeros_have_other_signs(run, count, dtype):
    """Numbers that differ only in these are equal, also as keys of caches."""
    signs = (1.0, 0.0, -0.0)
    for value in [complex(real, imag) for real in signs for imag in signs]:
        attrs = {"shape": (count,), "value": value, "dtype": plugrad.DType(dtype)}
        made = run.get(run.functions["Fill"](run.backend, **attrs))
        for part in ("real", "imag"):
            right = np.full(count, getattr(value, part))
            np.testing.assert_array_equal(getattr(made, part), right)
            np.testing.assert_array_equal(np.signbit(getattr(made, part)), np.signbit(right))


def test_kernels_that_create_arrays(run):
    backend, functions = run.backend, run.functions

    def make(name, **attrs):
        return run.get(functions[name](backend, **attrs))

    for value in (1.5, -0.0, 0.0, np.nan, np.inf):
        made = make("Fill", shape=(2, 3), value=value, dtype=float32)
        np.testing.assert_array_equal(made, np.full((2, 3), value))
        assert np.array_equal(np.signbit(made), np.signbit(np.full((2, 3), value, np.float32)))
    assert make("Fill", shape=(), value=-7, dtype=int64) == -7
    assert make("Fill", shape=(2,), value=True, dtype=bool_).tolist() == [True, True]
    assert make("Range", start=5, stop=-1, step=-2, dtype=int32).tolist() == [5, 3, 1]
    np.testing.assert_allclose(
        make("Range", start=0, stop=1, step=0.1, dtype=float32), np.arange(0, 1, 0.1), rtol=1e-7
    )
    assert make("LinSpace", start=0, stop=1, num=5, dtype=float32).tolist() == [
        0,
        0.25,
        0.5,
        0.75,
        1,
    ]
    assert run("OnesLike", consecutive_numbers((3,), "uint8")).tolist() == [1, 1, 1]
    assert not run("ZerosLike", consecutive_numbers((3,), "float64")).any()
    with pytest.raises(UnsupportedDtype, match="string"):
        make("Fill", shape=(1,), value=0, dtype=string)


def test_positions_of_64_bits_are_not_cut_off(run):
    x = np.arange(1, 7, dtype="f4").reshape(3, 2)
    places = np.array([2, -1, 3, -4, 2**32, -(2**40)])
    expected = np.array([[5, 6], [5, 6], *[[0, 0]] * 4], "f4")
    actual = run("GatherV2", x, places, axis=0, batch_dims=0)
    np.testing.assert_array_equal(actual, expected)
    actual = run("GatherV2", x[:, 0], places, axis=0, batch_dims=0)
    np.testing.assert_array_equal(actual, expected[:, 0])


@pytest.mark.parametrize("times", [2, 3, 4, 5])
@pytest.mark.parametrize("dtype", ["int8", "float32", "float64"])
def test_neighbours_that_are_repeated(dtype, times):
    x = np.arange(7 * 60 * 11).reshape(7, 60, 11).astype(dtype)
    stretched = np.broadcast_to(x[..., None], (*x.shape, times))
    with plugrad.use("wasm"):
        y = plugrad.asarray(x)
        repeated = plugrad.repeat(y, times, axis=-1)
        view = plugrad.broadcast_to(y[..., None], stretched.shape)
        joined = plugrad.concat([y[..., None], view], axis=-1)
    np.testing.assert_array_equal(repeated.numpy(), x.repeat(times, -1))
    np.testing.assert_array_equal(view.numpy(), stretched)
    np.testing.assert_array_equal(joined.numpy(), np.concatenate([x[..., None], stretched], -1))
