"""Reductions, scans, normalization and matrix products against NumPy."""

from itertools import combinations

import ml_dtypes
import numpy as np
import pytest

import plugrad

NAN, INF = np.nan, np.inf
NUMPY_REDUCTIONS = {"Sum": np.sum, "Prod": np.prod, "Max": np.max, "Min": np.min, "Mean": np.mean}
SHAPE = (3, 4, 2, 5)
INTEGER_DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
AXES_CHOICES = [axes for n in range(5) for axes in combinations(range(4), n)]


def run_reduction(run, name, x, axes, keep_dims=False):
    key = "reduction_indices" if name == "Max" else "axis"
    return run(name, x, **{key: axes, "keep_dims": keep_dims})


@pytest.mark.parametrize("axes", AXES_CHOICES, ids=str)
@pytest.mark.parametrize("name", NUMPY_REDUCTIONS)
def test_reductions_over_any_axes(run, rng, name, axes):
    x = rng.standard_normal(SHAPE).astype(np.float32)
    for keep in (False, True):
        expected = NUMPY_REDUCTIONS[name](x.astype(float), axis=axes, keepdims=keep)
        actual = run_reduction(run, name, x, axes, keep)
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [*INTEGER_DTYPES, "float64"])
def test_reductions_keep_the_dtype(run, rng, dtype):
    x = rng.integers(1, 4, (7, 70)).astype(dtype)
    for name in ("Sum", "Prod", "Max", "Min"):
        for axis in (0, 1):
            expected = (
                NUMPY_REDUCTIONS[name](x, axis=axis, dtype=dtype)
                if name in ("Sum", "Prod")
                else (NUMPY_REDUCTIONS[name](x, axis=axis))
            )
            np.testing.assert_allclose(run_reduction(run, name, x, (axis,)), expected, rtol=1e-14)


@pytest.mark.parametrize("length", [1, 15, 16, 17, 63, 64, 65, 1023, 1024, 1025, 5000])
def test_reductions_of_every_length(run, rng, length):
    x = rng.standard_normal((3, length)).astype(np.float32)
    for data in (x, np.ascontiguousarray(x.T)):
        axis = (data.shape.index(length),) if length != 3 else (1,)
        expected = np.sum(data.astype(float), axis=axis)
        np.testing.assert_allclose(
            run_reduction(run, "Sum", data, axis), expected, rtol=2e-5, atol=1e-5
        )
        np.testing.assert_array_equal(run_reduction(run, "Max", data, axis), data.max(axis=axis))
        np.testing.assert_array_equal(run_reduction(run, "Min", data, axis), data.min(axis=axis))


@pytest.mark.parametrize("inner", [255, 256, 257, 530])
@pytest.mark.parametrize("length", [1, 15, 16, 33])
def test_reductions_of_wide_rows(run, rng, length, inner):
    x = rng.standard_normal((2, length, inner)).astype(np.float32)
    expected = np.sum(x.astype(float), axis=1)
    np.testing.assert_allclose(run_reduction(run, "Sum", x, (1,)), expected, rtol=2e-5, atol=1e-5)
    np.testing.assert_array_equal(run_reduction(run, "Max", x, (1,)), x.max(axis=1))


def test_long_sums_stay_exact(run):
    x = np.full(3_000_001, 0.1, np.float32)  # every addition rounds the same way
    np.testing.assert_allclose(
        run_reduction(run, "Sum", x, (0,)), np.sum(x, dtype=float), rtol=2e-7
    )
    columns = np.full((200_001, 3), 0.1, np.float32)
    exact = np.sum(columns, axis=0, dtype=float)
    np.testing.assert_allclose(run_reduction(run, "Sum", columns, (0,)), exact, rtol=2e-7)


def test_reductions_of_empty_arrays(run):
    x = np.zeros((2, 0, 3), np.float32)
    np.testing.assert_array_equal(run_reduction(run, "Sum", x, (1,)), np.zeros((2, 3)))
    np.testing.assert_array_equal(run_reduction(run, "Prod", x, (1,)), np.ones((2, 3)))
    np.testing.assert_array_equal(run_reduction(run, "Mean", x, (1,)), np.full((2, 3), NAN))
    assert run_reduction(run, "Max", x, (0,)).shape == (0, 3)
    assert run("All", np.zeros((0,), bool), axis=(0,), keep_dims=False)
    assert not run("Any", np.zeros((0,), bool), axis=(0,), keep_dims=False)
    assert run_reduction(run, "Sum", np.float32(3), ()) == 3


@pytest.mark.parametrize("shape", [(3, 1), (2, 5), (4, 16), (3, 19), (130, 35), (300, 129)])
def test_extremes_of_rows_and_columns_of_any_length(run, rng, shape):
    x = rng.standard_normal(shape).astype("f4")
    for place in (None, 0, x.size // 2, x.size - 1):
        y = x.copy()
        if place is not None:
            y.flat[[place, place // 2]] = NAN, INF
        for axis in (0, 1):
            for name, reference in (("Max", np.max), ("Min", np.min)):
                found = run_reduction(run, name, y, (axis,))
                np.testing.assert_array_equal(found, reference(y, axis=axis))


def test_nan_wins_every_extreme(run, rng):
    for length in (3, 16, 100):
        for place in {0, 1, length - 1}:
            x = rng.standard_normal((2, length)).astype(np.float32)
            x[1, place] = NAN
            for data, axis in ((x, 1), (np.ascontiguousarray(x.T), 0)):
                assert np.isnan(run_reduction(run, "Max", data, (axis,))).tolist() == [False, True]
                assert np.isnan(run_reduction(run, "Min", data, (axis,))).tolist() == [False, True]
                for name, reference in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
                    np.testing.assert_array_equal(run(name, data, axis=axis), reference(data, axis))


def test_extremes_of_infinities(run):
    x = np.full((2, 20), -INF, np.float32)
    np.testing.assert_array_equal(run_reduction(run, "Max", x, (1,)), x[:, 0])
    np.testing.assert_array_equal(run_reduction(run, "Min", -x, (1,)), -x[:, 0])


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "uint8"])
def test_argmax_and_argmin_return_first_positions(run, rng, dtype, axis):
    x = rng.integers(0, 3, (4, 5, 37)).astype(dtype)
    np.testing.assert_array_equal(run("ArgMax", x, axis=axis), np.argmax(x, axis))
    np.testing.assert_array_equal(run("ArgMin", x, axis=axis), np.argmin(x, axis))


@pytest.mark.parametrize("axes", AXES_CHOICES, ids=str)
def test_reductions_of_bools(run, rng, axes):
    x = rng.random(SHAPE) > 0.3
    np.testing.assert_array_equal(run("All", x, axis=axes, keep_dims=False), np.all(x, axis=axes))
    np.testing.assert_array_equal(
        run("Any", ~x, axis=axes, keep_dims=True), np.any(~x, axis=axes, keepdims=True)
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_small_integers_are_reduced_as_on_the_cpu(dtype, axis):
    x = np.array([[100, 2, 120], [127, 1, 99]], dtype)
    for op in (plugrad.sum, plugrad.prod, plugrad.mean, plugrad.max, plugrad.argmax):
        expected, actual = (op(plugrad.asarray(x, device=d), axis=axis) for d in ("cpu", "wasm"))
        assert actual.device == "wasm:0"
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual.numpy(), expected.numpy())
    for op in (plugrad.cumulative_sum, plugrad.cumulative_prod):
        expected, actual = (
            op(plugrad.asarray(x, device=d), axis=axis or 0) for d in ("cpu", "wasm")
        )
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual.numpy(), expected.numpy())


NUMPY_SCANS = {"Cumsum": np.add, "Cumprod": np.multiply}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("name", NUMPY_SCANS)
@pytest.mark.parametrize("dtype", ["float32", "float64", *INTEGER_DTYPES])
def test_scans(run, rng, dtype, name, exclusive, reverse):
    combine = NUMPY_SCANS[name]
    for shape in [(5,), (3, 4, 17), (2, 33, 1), (3, 1, 40), (2, 0, 3), (0, 4)]:
        x = rng.integers(0, 5, shape).astype(dtype)
        for axis in range(len(shape)):
            expected = np.flip(x, axis) if reverse else x
            expected = combine.accumulate(expected, axis, dtype=dtype)
            if exclusive and shape[axis]:
                first = np.full_like(expected.take([0], axis), combine.identity)
                kept = expected.take(range(shape[axis] - 1), axis)
                expected = np.concatenate([first, kept], axis)
            expected = np.flip(expected, axis) if reverse else expected
            actual = run(name, x, axis=axis, exclusive=exclusive, reverse=reverse)
            np.testing.assert_array_equal(actual, expected)


def test_long_scans_stay_exact(run):
    x = np.full(1_000_001, 0.1, np.float32)  # every addition rounds the same way
    sums = run("Cumsum", x, axis=0, exclusive=False, reverse=False)
    np.testing.assert_allclose(sums, np.cumsum(x, dtype=float), rtol=2e-7)


def reference_softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("length", [1, 3, 8, 37])
def test_softmax(run, rng, length, axis, dtype):
    shape = [2, 3, 4]
    shape[axis] = length
    x = (rng.standard_normal(shape) * 9).astype(dtype)
    expected = reference_softmax(x.astype(float), axis)
    # Half a unit of x - max(x) is a relative error of exp.
    np.testing.assert_allclose(run("Softmax", x, dim=axis), expected, rtol=4e-6)
    np.testing.assert_allclose(
        run("LogSoftmax", x, axis=axis), np.log(expected), rtol=2e-6, atol=1e-6
    )


@pytest.mark.parametrize("count", [2, 10, 1000])
@pytest.mark.parametrize("least", [-1, -15, -20, -87])
def test_softmax_is_within_four_units_in_the_last_place(run, rng, least, count):
    x = rng.uniform(least, 0, (20_000 // count, count)).astype(np.float32)
    x[:, 0] = 0  # so that subtracting the largest element is exact
    expected = reference_softmax(x.astype(float), 1)
    units = np.abs(run("Softmax", x, dim=1) - expected) / np.spacing(expected.astype(np.float32))
    assert units[expected > 2e-38].max() <= 4


def test_softmax_of_extremes(run):
    x = np.float32([[1e4, 0, -1e4], [-INF, 0, 1], [NAN, 0, 1]])
    y = run("Softmax", x, dim=1)
    np.testing.assert_allclose(y[:2], [[1, 0, 0], [0, 0.26894143, 0.7310586]], rtol=1e-6)
    assert np.isnan(y[2]).all()
    assert run("Softmax", np.zeros((3, 0), np.float32), dim=1).shape == (3, 0)


MATRIX_SIZES = [1, 2, 3, 4, 5, 11, 12, 13, 33, 40, 97]


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_matrix_products_of_every_size(run, rng, transpose_a, transpose_b):
    for rows in MATRIX_SIZES:
        for columns in MATRIX_SIZES:
            for depth in (1, 4, 7, 40):
                a = rng.standard_normal((rows, depth)).astype(np.float32)
                b = rng.standard_normal((depth, columns)).astype(np.float32)
                actual = run(
                    "BatchMatMul",
                    a.T if transpose_a else a,
                    b.T if transpose_b else b,
                    transpose_a=transpose_a,
                    transpose_b=transpose_b,
                )
                np.testing.assert_allclose(actual, a @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("depth", [8, 9])
@pytest.mark.parametrize("rows", range(1, 7))
def test_few_rows_with_a_bias_and_limits(run, rng, rows, depth):
    a, b = rng.standard_normal((rows, depth)), rng.standard_normal((depth, 24))
    a[-1, 1], bias = NAN, rng.standard_normal(24)
    flags = {"transpose_a": False, "transpose_b": False, "leakyrelu_alpha": 0.2}
    for activation, limits in (("linear", (-INF, INF)), ("relu", (0, INF)), ("relu6", (0, 6))):
        operands = (x.astype(np.float32) for x in (a, b, bias))
        actual = run("_FusedMatMul", *operands, None, activation=activation, **flags)
        np.testing.assert_allclose(actual, np.clip(a @ b + bias, *limits), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("float64", 1e-12)])
@pytest.mark.parametrize(("rows", "columns", "depth"), [(200, 100, 600), (7, 2100, 300)])
def test_matrix_products_across_blocks(run, rng, rows, columns, depth, dtype, tolerance):
    a = rng.standard_normal((rows, depth)).astype(dtype)
    b = rng.standard_normal((depth, columns)).astype(dtype)
    flags = {"transpose_a": False, "transpose_b": False}
    expected = a.astype(float) @ b.astype(float)
    actual = run("BatchMatMul", a, b, **flags)
    np.testing.assert_allclose(actual, expected, rtol=10 * tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("a_batch", "b_batch"),
    [((2,), (2,)), ((), (3,)), ((2, 1), (1, 3)), ((4, 1, 2), (3, 1)), ((0,), ())],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "int8"])
def test_batches_of_matrix_products_broadcast(run, rng, a_batch, b_batch, dtype):
    a = rng.integers(-4, 4, (*a_batch, 5, 3)).astype(dtype)
    b = rng.integers(-4, 4, (*b_batch, 6, 3)).astype(dtype)
    actual = run("BatchMatMul", a, b, transpose_a=False, transpose_b=True)
    np.testing.assert_array_equal(actual, a @ b.swapaxes(-1, -2))


def test_matrix_products_of_empty_and_infinite_matrices(run):
    flags = {"transpose_a": False, "transpose_b": False}
    empty = run("BatchMatMul", np.ones((2, 0), np.float32), np.ones((0, 3), np.float32), **flags)
    np.testing.assert_array_equal(empty, np.zeros((2, 3)))
    a = np.float32([[INF, 1], [1, 1], [1, NAN]])
    b = np.float32([[1, 2], [3, 4]])
    expected = [[INF, INF], [4, 6], [NAN, NAN]]
    np.testing.assert_array_equal(run("BatchMatMul", a, b, **flags), expected)


@pytest.mark.parametrize("length", [1, 1023, 1024, 2050])
def test_all_and_any_find_one_bool_at_every_position(run, length):
    for place in {0, length // 2, length - 1}:
        x = np.zeros((3, length), bool)
        x[1, place] = True
        for axes, axis in (((1,), 1), ((0,), 0), ((0, 1), None)):
            np.testing.assert_array_equal(run_reduction(run, "Any", x, axes), x.any(axis))
            np.testing.assert_array_equal(run_reduction(run, "All", ~x, axes), (~x).all(axis))


HALF_DTYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def assert_same_bits(y, expected):
    is_nan = expected != expected
    np.testing.assert_array_equal(y != y, is_nan)
    np.testing.assert_array_equal(y.view("u2")[~is_nan], expected.view("u2")[~is_nan])


@pytest.mark.filterwarnings("ignore:.* encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("dtype", HALF_DTYPES)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        *(((n,), (0,)) for n in (0, 1, 31, 33, 1000, 131_072, 131_073)),
        *(((300, 300), axes) for axes in ((0,), (1,), (0, 1), ())),
        *(((9, 8003), (0,)), ((8, 9000), (0,)), ((4000, 17), (0,)), ((5000, 16), (0,))),
        *(((70, 33, 50), (0, 2)), ((70, 33, 50), (1,)), ((0, 5), (0,)), ((5, 0), (1,)), ((), ())),
    ],
    ids=str,
)
def test_sums_of_halves_are_rounded_float_results(run, rng, shape, axes, dtype):
    x = rng.standard_normal(shape).astype(np.float32)
    special = x.copy()
    if x.size > 50_000:
        places = rng.choice(x.size, 12, replace=False)
        special.ravel()[places] = [INF, -INF, NAN, 6e4, 6e4, 6e4, -6e4, 1e-7, -1e-7, 6e-8, -0.0, 0]
    for values in (x, special, x * np.float32(1e-6)):
        given = values.astype(HALF_DTYPES[dtype])
        expected = run_reduction(run, "Sum", given.astype(np.float32), axes).astype(given.dtype)
        assert_same_bits(run_reduction(run, "Sum", given, axes), expected)


@pytest.mark.filterwarnings("ignore:.* encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("dtype", HALF_DTYPES)
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_products_of_halves_are_rounded_float_results(run, rng, transpose_a, transpose_b, dtype):
    flags = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    sizes = [(1, 1, 1), (8, 8, 8), (7, 13, 3), (32, 32, 32), (33, 32, 31), (1, 1024, 1)]
    sizes += [(5, 0, 4), (0, 3, 4), (40, 50, 60)]
    for rows, depth, columns in sizes:
        a, b = rng.standard_normal((rows, depth)), rng.standard_normal((depth, columns))
        if depth > 10:
            a[0, :3], b[5] = (INF, NAN, 1e-7), 6e4
        a, b = (x.astype(HALF_DTYPES[dtype]) for x in (a, b))
        a, b = a.T if transpose_a else a, b.T if transpose_b else b
        wide = run("BatchMatMul", a.astype(np.float32), b.astype(np.float32), **flags)
        assert_same_bits(run("BatchMatMul", a, b, **flags), wide.astype(a.dtype))
    batch = rng.standard_normal((3, 4, 4)).astype(HALF_DTYPES[dtype])
    wide = run("BatchMatMul", *[batch.astype(np.float32)] * 2, **flags)
    assert_same_bits(run("BatchMatMul", batch, batch, **flags), wide.astype(batch.dtype))


@pytest.mark.parametrize("count", [1, 2, 3, 7, 100])
def test_softmax_in_double_precision_of_short_rows(run, rng, count):
    x = rng.standard_normal((5, count))
    x[0, 0], x[1, -1], x[2], x[3, 0] = INF, -INF, -INF, NAN
    with np.errstate(invalid="ignore"):
        y = np.exp(x - x.max(1, keepdims=True))
        expected = y / y.sum(1, keepdims=True)
        logarithm = np.log(expected[4:])
    np.testing.assert_allclose(run("Softmax", x, dim=1), expected, rtol=1e-14)
    np.testing.assert_allclose(run("LogSoftmax", x, axis=1)[4:], logarithm, rtol=1e-12, atol=1e-14)


LAYER_SHAPES = [(1, 1), (3, 7), (2, 16), (5, 100), (9, 530), (4, 1000), (3, 3000), (2, 131_073)]


@pytest.mark.filterwarnings("ignore:.* encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("dtype", HALF_DTYPES)
@pytest.mark.parametrize("shape", LAYER_SHAPES, ids=str)
def test_layer_norms_of_halves_are_those_of_floats_rounded(run, rng, shape, dtype):
    attributes = {"axis": 1, "variance_epsilon": 1e-3}
    x, offset, scale = (rng.normal(size=n) for n in (shape, shape[1:], shape[1:]))
    x[0, 0], x[-1, -1] = 1e-7, 300
    special = x.copy()
    special[0, -1], special[-1, 0] = INF, NAN
    for values in (x, special, x[:0]):
        for parts in ((offset, scale), (None, scale), (None, None)):
            halves = [y if y is None else y.astype(HALF_DTYPES[dtype]) for y in (values, *parts)]
            wide = [y if y is None else y.astype(np.float32) for y in halves]
            expected = run("LayerNorm", *wide, **attributes).astype(halves[0].dtype)
            assert_same_bits(run("LayerNorm", *halves, **attributes), expected)


@pytest.mark.parametrize("shape", LAYER_SHAPES, ids=str)
def test_layer_norm_of_a_row_does_not_depend_on_the_rows_beside(run, rng, shape):
    x = rng.normal(size=shape).astype(np.float32)
    x[0, 0] = INF
    attributes = {"axis": 1, "variance_epsilon": 1e-3}
    found = run("LayerNorm", x, None, None, **attributes)
    for i, row in enumerate(x):
        np.testing.assert_array_equal(
            run("LayerNorm", row[None], None, None, **attributes)[0], found[i]
        )


@pytest.mark.parametrize("name", ["Sum", "Prod", "Mean"])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_columns_of_many_complex_numbers(run, rng, name, dtype):
    x = np.exp(1j * rng.standard_normal((500, 300))).astype(dtype)
    found = run(name, x, axis=(0,), keep_dims=False)
    np.testing.assert_allclose(found, NUMPY_REDUCTIONS[name](x, 0), rtol=1e-3, atol=1e-3)
