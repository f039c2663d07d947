"""Results of a few elements, which C makes, are those that Python makes: for all dtypes, layouts and shapes."""

from itertools import permutations

import numpy as np
import pytest

import plugrad
from plugrad.discovery.loading import open_backend
from plugrad.kernels import scan
from plugrad.registry.kernels import override_kernel
from plugrad_cpu.extend import thread_pool
from plugrad_native import declare
from plugrad_native.programs.calls import find_ufunc_loop
from plugrad_native.variants import current_variant

DTYPES = ("bool", "float16", "float32", "float64", "int8", "int32", "int64", "uint8", "complex64")


def small_integers(*shape, dtype="float32"):
    values = np.arange(np.prod(shape, dtype=int)) % 7 - 3
    return values.astype(dtype).reshape(shape)


def assert_equal(found, expected):
    np.testing.assert_array_equal(found.numpy(), expected, strict=True)


@pytest.fixture(autouse=True)
def on_cpu():
    with plugrad.use("cpu"):
        yield


@pytest.mark.parametrize("dtype", DTYPES)
def test_small_concatenations_and_stacks(dtype):
    for shapes, axis in (
        ([(8,), (8,)], 0),
        ([(2, 3), (1, 3), (4, 3)], 0),
        ([(2, 3), (2, 1)], 1),
        ([(2, 3, 4), (2, 0, 4), (2, 2, 4)], -2),
        ([(0, 3), (0, 2)], 1),
        ([(3,)] * 17, 0),
        ([(2, 1, 3)] * 300, 1),
        ([(2000,), (3000,)], 0),
        ([(90, 100), (90, 200)], 1),
    ):
        arrays = [small_integers(*shape, dtype=dtype) for shape in shapes]
        assert_equal(
            plugrad.concat(list(map(plugrad.asarray, arrays)), axis=axis),
            np.concatenate(arrays, axis),
        )
    for shape, count in (((), 3), ((4,), 2), ((2, 3), 17), ((0, 3), 2), ((40, 50), 2)):
        arrays = [small_integers(*shape, dtype=dtype)] * count
        for axis in range(-len(shape) - 1, len(shape) + 1):
            tensors = list(map(plugrad.asarray, arrays))
            assert_equal(plugrad.stack(tensors, axis=axis), np.stack(arrays, axis))


def test_joins_of_views():
    x = plugrad.asarray(small_integers(3, 4))
    assert_equal(
        plugrad.concat([x.T, x.T], axis=1), np.concatenate([small_integers(3, 4).T] * 2, 1)
    )
    assert_equal(
        plugrad.stack([x[:, 1], x[:, 2]]),
        np.stack([small_integers(3, 4)[:, 1], small_integers(3, 4)[:, 2]]),
    )
    assert_equal(
        plugrad.concat([plugrad.flip(x), x]),
        np.concatenate([small_integers(3, 4)[::-1, ::-1], small_integers(3, 4)]),
    )


def test_joins_of_strings_and_of_other_dtypes():
    assert plugrad.concat([plugrad.asarray(["a"]), plugrad.asarray(["b"])]).numpy().tolist() == [
        "a",
        "b",
    ]
    mixed = plugrad.concat([plugrad.asarray([1]), plugrad.asarray([2.5])])
    assert_equal(mixed, np.array([1, 2.5], "float32"))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_small_reductions(dtype):
    for shape, axis in (
        ((8,), None),
        ((2, 4), 1),
        ((3, 4, 5), (0, 1)),
        ((3, 4, 5), (0, 2)),
        ((), None),
    ):
        x = small_integers(*shape, dtype=dtype)
        for transposed in (False, True):
            given = plugrad.asarray(x)
            given, expected = (given.T, x.T) if transposed and x.ndim == 2 else (given, x)
            for keep in (False, True):
                where = {"axis": axis, "keepdims": keep}
                assert_equal(plugrad.max(given, **where), np.asarray(expected.max(**where)))
                assert_equal(
                    plugrad.sum(given, dtype=dtype, **where),
                    np.asarray(expected.sum(dtype=dtype, **where)),
                )
                assert_equal(plugrad.any(given, **where), np.asarray((expected != 0).any(**where)))
                assert_equal(plugrad.all(given, **where), np.asarray((expected != 0).all(**where)))


def test_elementwise_kernels_and_rows():
    x = plugrad.asarray(small_integers(3, 4))
    assert_equal(plugrad.relu(x), np.maximum(small_integers(3, 4), 0))
    assert_equal(plugrad.relu(x.T), np.maximum(small_integers(3, 4), 0).T)
    assert_equal(plugrad.relu(x[:, ::2]), np.maximum(small_integers(3, 4)[:, ::2], 0))
    assert_equal(plugrad.relu(plugrad.zeros((0, 3))), np.zeros((0, 3), "float32"))
    assert_equal(plugrad.relu(x[1, 1]), np.maximum(small_integers(3, 4)[1, 1], 0))
    rows = np.exp(small_integers(3, 4)) / np.exp(small_integers(3, 4)).sum(-1, keepdims=True)
    np.testing.assert_allclose(plugrad.softmax(x).numpy(), rows, 1e-6)
    np.testing.assert_allclose(plugrad.softmax(x.T, axis=0).numpy(), rows.T, 1e-6)


SHARED_MIN_ELEMENTS = thread_pool.part_min_work
"""The elements of elementwise results from which on C leaves them to implementations that threads share."""
BINARY_OPS = ("add", "subtract", "multiply", "maximum", "minimum", "less", "equal", "not_equal")
UNARY_OPS = ("negative", "square", "abs", "floor", "sign")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8", "int8"])
def test_small_elementwise_results_match_numpy(dtype):
    shapes = (
        ((8,), (8,)),
        ((3, 4), ()),
        ((), (3, 4)),
        ((), ()),
        ((1,), (8,)),
        ((3, 4), (4,)),
        ((0,), (0,)),
    )
    for name in BINARY_OPS:
        for first, second in (
            *shapes,
            ((1023,), (1023,)),
            ((1024,), (1024,)),
            ((SHARED_MIN_ELEMENTS - 1,), (SHARED_MIN_ELEMENTS - 1,)),
            ((SHARED_MIN_ELEMENTS,), ()),
            ((1023,), ()),
            ((1, 2), (2, 1)),
        ):
            a, b = (
                small_integers(*first, dtype=dtype),
                small_integers(*second, dtype=dtype) + np.array(1, dtype),
            )
            expected = np.asarray(getattr(np, name)(a, b))
            assert_equal(getattr(plugrad, name)(plugrad.asarray(a), plugrad.asarray(b)), expected)
    x, y = small_integers(3, 4, dtype=dtype), small_integers(4, 3, dtype=dtype)
    for mine, theirs in ((plugrad.asarray(x).T, x.T), (plugrad.asarray(y)[::2], y[::2])):
        assert_equal(mine + mine, theirs + theirs)
        assert_equal(mine * plugrad.asarray(np.ones(theirs.shape, dtype)), theirs)
    for name in UNARY_OPS:
        for shape in ((8,), (3, 4), (), (0, 3), (1023,), (1024,), (SHARED_MIN_ELEMENTS - 1,)):
            x = small_integers(*shape, dtype=dtype)
            assert_equal(
                getattr(plugrad, name)(plugrad.asarray(x)), np.asarray(getattr(np, name)(x))
            )


@pytest.mark.parametrize("dtype", DTYPES)
def test_small_triangles_of_matrices(dtype):
    for shape in ((2, 4), (4, 2), (3, 3, 5), (1, 1), (40, 50), (0, 3)):
        x = (np.arange(np.prod(shape, dtype=int)) % 100).astype(dtype).reshape(shape)
        for k in (-100, -4, -1, 0, 1, 4, 100, 2**31 - 1, -(2**31)):
            assert_equal(plugrad.tril(plugrad.asarray(x), k=k), np.tril(x, k))
            assert_equal(plugrad.triu(plugrad.asarray(x), k=k), np.triu(x, k))
        turned = plugrad.permute_dims(plugrad.asarray(x), (*range(x.ndim - 2), -1, -2))
        assert_equal(plugrad.tril(turned), np.tril(x.swapaxes(-1, -2)))
        for number in ("int8", "int32", "int64"):
            limits = plugrad.asarray(1, dtype=number), plugrad.asarray(0, dtype=number)
            expected = np.triu(np.tril(x), -1)
            assert_equal(plugrad.linalg.band_part(plugrad.asarray(x), *limits), expected)


@pytest.mark.parametrize("dtype", [*DTYPES, "string"])
def test_views(dtype):
    for shape, wanted in (
        *(
            ((8,), (2, 4)),
            ((2, 4), (8,)),
            ((2, 4), (4, 1, 2)),
            ((), (1, 1)),
            ((1,), ()),
            ((0, 3), (5, 0)),
        ),
        *(((300, 1000), (1000, 300)), ((2,) * 12, (4,) * 6)),
    ):
        x = np.arange(np.prod(shape, dtype=int)) % 100
        x = x.astype(np.dtypes.StringDType() if dtype == "string" else dtype).reshape(shape)
        given = plugrad.asarray(x)
        y = plugrad.reshape(given, wanted)
        assert_equal(y, x.reshape(wanted))
        for axis in range(-len(shape) - 1, len(shape) + 1):
            assert_equal(plugrad.expand_dims(given, axis), np.expand_dims(x, axis))
            assert_equal(plugrad.squeeze(plugrad.expand_dims(given, axis), axis), x)
        if len(shape) == 2:
            assert_equal(plugrad.reshape(given.T, wanted[::-1]), x.T.reshape(wanted[::-1]))
            assert_equal(plugrad.expand_dims(given.T, 1), np.expand_dims(x.T, 1))
        del given, x
        assert y.shape == wanted  # which keeps the memory
        _ = y.numpy().tolist()


def test_an_assignment_leaves_views_as_they_are():
    x = plugrad.asarray(small_integers(8))
    y, z = plugrad.reshape(x, (2, 4)), plugrad.expand_dims(x, 0)
    x[:] = 9
    assert_equal(y, small_integers(2, 4))
    assert_equal(z, small_integers(1, 8))
    y[0] = 5
    assert_equal(x, np.full(8, 9, "float32"))
    assert_equal(z, small_integers(1, 8))


def test_wrong_views_are_refused():
    x = np.arange(6, dtype="float32")
    run = plugrad.zeros(1).backend.functions["Reshape"]
    plugrad.reshape(plugrad.zeros(1), (1, 1))  # after which the function is kept
    run = plugrad.zeros(1).backend.functions["Reshape"]
    for shape in ((7,), (2, 4), (0,), "ab"):
        with pytest.raises((ValueError, TypeError)):
            run(x, shape=shape)
    new_axis = plugrad.expand_dims(plugrad.zeros(1)).backend.functions["ExpandDims"]
    for given in (x, np.float32(1)):
        for place in ("a", 3):
            with pytest.raises((ValueError, TypeError, IndexError)):
                new_axis(np.asarray(given), dim=place)


@pytest.mark.parametrize("dtype", DTYPES)
def test_small_filled_arrays(dtype):
    for shape in ((8,), (), (2, 3), (0, 3), (1023,), (1024,), (40, 50)):
        assert_equal(plugrad.zeros(shape, dtype=dtype), np.zeros(shape, dtype))
        assert_equal(plugrad.ones(shape, dtype=dtype), np.ones(shape, dtype))
        assert_equal(plugrad.full(shape, 1, dtype=dtype), np.full(shape, 1, dtype))
    if dtype.startswith(("float", "complex")):
        for value in (0.5, -0.0, np.nan, np.inf, -np.inf, 1e-45, 1e38):
            with np.errstate(over="ignore"):
                expected = np.full(3, value, dtype)
            found = plugrad.full(3, value, dtype=dtype).numpy()
            np.testing.assert_array_equal(found, expected, strict=True)
            assert np.signbit(found.real).tolist() == np.signbit(expected.real).tolist()
    if dtype in ("int32", "int64"):
        limits = np.iinfo(dtype)
        for value in (limits.min, limits.max, -1):
            assert_equal(plugrad.full((2, 2), value, dtype=dtype), np.full((2, 2), value, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8"])
def test_positions_scans_and_orders(dtype):
    for shape in ((8,), (2, 4), (3, 4, 5), (1,), (1000,), (1025,), (0, 3)):
        x = small_integers(*shape, dtype=dtype)
        for given, values in ((plugrad.asarray(x), x), (plugrad.permute_dims(x), x.T)):
            for axis in range(-len(shape), len(shape)):
                if values.shape[axis]:
                    assert_equal(
                        plugrad.argmax(given, axis=axis), values.argmax(axis).astype("int32")
                    )
                    assert_equal(
                        plugrad.argmin(given, axis=axis), values.argmin(axis).astype("int32")
                    )
                expected = values.cumsum(axis, dtype=dtype)
                assert_equal(plugrad.cumulative_sum(given, axis=axis, dtype=dtype), expected)
                order = values.argsort(axis, kind="stable").astype("int32")
                assert_equal(plugrad.argsort(given, axis=axis), order)
                assert_equal(plugrad.sort(given, axis=axis), np.sort(values, axis))
    x = plugrad.asarray(small_integers(8, dtype=dtype))
    exclusive = np.r_[np.zeros(1, dtype), small_integers(8, dtype=dtype).cumsum(dtype=dtype)[:-1]]
    found = scan.cumsum(x, axis=0, exclusive=True, reverse=False)
    assert_equal(found, exclusive)
    backwards = scan.cumsum(x, axis=0, exclusive=False, reverse=True)
    assert_equal(backwards, small_integers(8, dtype=dtype)[::-1].cumsum(dtype=dtype)[::-1])


def test_positions_of_nan():
    x = plugrad.asarray(np.array([1, np.nan, 3, np.nan], "float32"))
    assert plugrad.argmax(x).item() == plugrad.argmin(x).item() == 1
    assert plugrad.argsort(x).tolist() == [0, 2, 1, 3]


@pytest.mark.rows("source", ["bool", "float16", "float32", "float64", "int32", "int64", "uint8"])
@pytest.mark.parametrize("target", DTYPES)
def test_small_casts(source, target):
    values = [0, 1, 0.5, -1.5, 255, 256, -129, 2.0**31, -(2.0**40), 2.0**63, 1e-40, 1e300]
    if source.startswith("float"):
        with np.errstate(over="ignore"):
            x = np.array([*values, -0.0, np.nan, np.inf, -np.inf]).astype(source)
    else:
        x = np.array([0, 1, 100, 255, -1, 2**31 - 1]).astype(source)
    long = np.tile(x, 200)
    expected = plugrad.astype(
        plugrad.asarray(long), target
    ).numpy()  # not in C's front: there are too many
    for shape in ((), (len(x),), (2, len(x) // 2)):
        given = x[:1].reshape(()) if shape == () else x.reshape(shape)
        found = plugrad.astype(plugrad.asarray(given), target).numpy()
        np.testing.assert_array_equal(found, expected[: found.size].reshape(shape), strict=True)
        turned = plugrad.astype(plugrad.asarray(given).mT if len(shape) == 2 else given, target)
        if len(shape) == 2:
            np.testing.assert_array_equal(turned.numpy(), found.T)


def test_small_casts_saturate():
    x = plugrad.asarray(np.array([np.nan, 1e30, -1e30, 300, -1, 2.7], "float32"))
    assert_equal(x.astype("uint8"), np.array([0, 255, 0, 255, 0, 2], "uint8"))
    assert_equal(x.astype("int32"), np.array([0, 2**31 - 1, -(2**31), 300, -1, 2], "int32"))
    assert_equal(x.astype("bool"), np.ones(6, bool))


@pytest.mark.parametrize("dtype", DTYPES)
def test_small_selections_by_where(dtype):
    x, y = small_integers(3, 4, dtype=dtype), small_integers(3, 4, dtype=dtype)[::-1].copy()
    for c in (
        x > y,
        (x > y)[0],
        (x > y)[:, :1],
        np.array(True),
        np.array(False),
        (x > y).T.copy().T,
    ):
        for a, b in (
            (x, y),
            (x, y[1]),
            (x[:, 2:3], y),
            (x, y[0, 0]),
            (x[1, 1], y),
            (x[1], y[:, :1]),
        ):
            given = [plugrad.asarray(z) for z in (c, a, b)]
            assert_equal(plugrad.where(*given), np.where(c, a, b))
    # As many elements as the result, with fewer axes, beside a row.
    for c, a, b in permutations((x[None], y, y[1])):
        assert_equal(plugrad.where(*map(plugrad.asarray, (c > 0, a, b))), np.where(c > 0, a, b))
    where = plugrad.asarray([True, False])
    assert_equal(
        plugrad.where(where, plugrad.asarray([[1.0], [2.0]]), 0.5),
        np.array([[1, 0.5], [2, 0.5]], "f4"),
    )
    with pytest.raises(plugrad.errors.ShapeError):
        plugrad.where(where, plugrad.zeros(3), plugrad.zeros(3))


@pytest.mark.parametrize(
    "name", ["add", "subtract", "multiply", "less", "maximum", "atan2", "hypot"]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_and_columns(name, dtype):
    theirs = {"atan2": np.arctan2}.get(name) or getattr(np, name)
    whole = small_integers(2, 3, 4, dtype=dtype) + np.array(0.25, dtype)
    parts = (
        whole[0, 0],
        whole[0],
        whole[:, :, 1:2].copy(),
        whole[0, 0, 0],
        whole[:1, :1, :1],
        whole[:1, 0],
    )
    others = (
        *(whole[:, 1:2].copy(), whole[:, :1, :1].copy(), whole[0, :, 1:2].copy()),
        *(whole[:1], whole[:1, :1], whole[:1, :, :1].copy(), whole[None, :1, :1]),
    )
    pairs = [(whole, part) for part in (*parts, *others)]
    column, row = whole[0, :, :1].copy(), whole[0, :1]
    pairs += [(column, row), (column, row[0]), (column[None], row), (column, whole[0, 0, 0])]
    pairs += [(np.tile(column, (60, 1)), np.tile(row, 90)), (column[:0], row), (column, row[:, :0])]
    for pair in pairs:
        for a, b in (pair, pair[::-1]):
            found = getattr(plugrad, name)(plugrad.asarray(a), plugrad.asarray(b)).numpy()
            expected = theirs(a, b)
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, 1e-6)


VIEWS_IN_C = {
    "a block": lambda x: x[0, 1:-1, 1:-1],
    "the left columns": lambda x: x[0, :, :70],
    "rows of several matrices": lambda x: x[..., 3:],
    "every second row": lambda x: x[0, ::2, 1:],
    "a row that is repeated": lambda x: x[0, 5, None],
}
VIEWS_NOT_IN_C = {
    "rows in reverse": lambda x: x[0, ::-1, 1:],
    "reversed rows": lambda x: x[0, :, ::-1],
    "every second column": lambda x: x[0, :, ::2],
    "transposed": lambda x: x[0].T,
    "gaps between matrices": lambda x: x[:, 1:-1, 1:],
    "many short rows": lambda x: x[0, :, :2],
}
LAYOUTS = VIEWS_IN_C | VIEWS_NOT_IN_C | {"a column": lambda x: x[0, :, :1]}


@pytest.mark.parametrize("view", LAYOUTS)
@pytest.mark.parametrize("columns", [100, 250])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "uint8"])
def test_views_with_gaps(view, columns, dtype):
    """Above 16,384 elements, results are made by the allocator."""
    whole = small_integers(2, 130, columns, dtype=dtype)
    x, theirs = LAYOUTS[view](plugrad.asarray(whole)), LAYOUTS[view](whole)
    row, column = theirs[..., :1, :].copy(), theirs[..., :1].copy()
    for name in (*BINARY_OPS, "divide"):
        mine, function = getattr(plugrad, name), getattr(np, name)
        for other in (theirs, theirs.copy() + np.array(1, dtype), row, column, row[..., :1]):
            if name == "divide" and np.dtype(dtype).kind != "f":
                continue
            with np.errstate(all="ignore"):
                expected = function(theirs, other), function(other, theirs)
            assert_equal(mine(x, plugrad.asarray(other)), expected[0])
            assert_equal(mine(plugrad.asarray(other), x), expected[1])
    assert_equal(x + x, theirs + theirs)
    for name in ("square", "abs", "sign"):
        assert_equal(getattr(plugrad, name)(x), getattr(np, name)(theirs))
    assert_equal(plugrad.where(x > 0, x, x * 2), np.where(theirs > 0, theirs, theirs * 2))


def test_which_views_are_read_in_c():
    given = np.dtype(np.float32)
    loop = np.add, find_ufunc_loop(np.add, given, given, given)
    small = declare.SmallResults("each", {(given, given): loop}, ())
    add = declare.with_small_results_in_c(small, lambda a, b: None)
    whole = small_integers(2, 130, 250)
    for name, view in LAYOUTS.items():
        x = view(whole)
        found = add(x, x)
        if name in VIEWS_NOT_IN_C or x.shape[-1] == 1:
            assert found is None, name
        else:
            np.testing.assert_array_equal(found, x + x, strict=True)
    most = np.zeros(SHARED_MIN_ELEMENTS, np.float32)
    assert add(most, most) is None
    assert add(most[1:], most[1:]).nbytes == most.nbytes - 4


def test_large_results_are_tracked():
    x = plugrad.asarray(small_integers(200, 250))
    held = plugrad.memory().bytes
    for compute in (lambda: x + x, lambda: x[1:, 1:] * 2, lambda: plugrad.abs(x)):
        y = compute()
        assert plugrad.memory().bytes == held + y.nbytes
        del y
    assert plugrad.memory().bytes == held


def test_powers_of_one_shape_and_of_numbers():
    x = np.array([0, -0.0, 2, -2, np.inf, -np.inf, np.nan, 0.5], "float32")
    for y in (
        x[::-1].copy(),
        np.full(8, 3, "float32"),
        np.array(3, "float32"),
        np.array([-1], "float32"),
    ):
        with np.errstate(all="ignore"):
            expected = np.power(x, y)
        assert_equal(plugrad.pow(plugrad.asarray(x), plugrad.asarray(y)), expected)
    half = plugrad.asarray(np.array([-np.inf, -0.0], "float32"))
    for exponent in (np.array(0.5, "float32"), np.array([0.5], "float32")):
        assert_equal(plugrad.pow(half, plugrad.asarray(exponent)), np.array([np.inf, 0], "float32"))


def test_small_elementwise_results_match_those_of_large_arrays():
    special = np.array([0, -0.0, 1.5, -2.5, np.nan, np.inf, -np.inf, 1e38, -1e38, 1e-45], "float32")
    long = np.tile(special, SHARED_MIN_ELEMENTS // 10 + 1)
    for name in (
        "add",
        "multiply",
        "divide",
        "maximum",
        "pow",
        "less",
        "equal",
        "atan2",
        "remainder",
        "hypot",
    ):
        function = getattr(plugrad, name)
        small = function(plugrad.asarray(special), plugrad.asarray(special[::-1].copy())).numpy()
        large = function(
            plugrad.asarray(long), plugrad.asarray(np.tile(special[::-1], long.size // 10))
        ).numpy()
        np.testing.assert_array_equal(small, large[:10], strict=True)
    for name in (
        "exp",
        "log",
        "sin",
        "cos",
        "tan",
        "sqrt",
        "floor",
        "isnan",
        "reciprocal",
        "sinh",
        "negative",
    ):
        function = getattr(plugrad, name)
        small, large = (
            function(plugrad.asarray(special)).numpy(),
            function(plugrad.asarray(long)).numpy(),
        )
        np.testing.assert_array_equal(small, large[:10], strict=True)


def test_implementations_of_the_program_come_first():
    x = plugrad.asarray([1.0, 2.0])
    with override_kernel("Add", "cpu", lambda a, b: a * b):
        assert_equal(x + x, np.array([1, 4], "float32"))
    assert_equal(x + x, np.array([2, 4], "float32"))


def test_a_memory_limit_counts_small_results_too():
    x = plugrad.asarray([1.0, 2.0])
    plugrad.set_memory_limit(1)
    try:
        with pytest.raises(plugrad.errors.OutOfMemory):
            _ = x + x
    finally:
        plugrad.set_memory_limit(None)
    assert_equal(x + x, np.array([2, 4], "float32"))


def test_kernels_with_other_arguments_are_refused():
    def refuse(functions, match):
        by_dtypes = {(np.dtype(d), np.dtype(d)): function for d, function in functions.items()}
        with pytest.raises(ValueError, match=match):
            declare.with_small_results_in_c(declare.SmallResults("each", by_dtypes, ()), print)

    refuse({"float32": current_variant().kernel("softmax_float32")}, "do not take")
    for function in (print, None, (np.modf, 0), (np.add, 1000), (np.add, -1), (np.clip, 0)):
        refuse({"float32": function}, r"do not take|pair")
    refuse({"float32": (np.add, 0), "float64": (np.exp, 0)}, "do not take")
    with pytest.raises(TypeError):
        current_variant().make_small_result_function("each", ())
    with pytest.raises(TypeError):
        current_variant().make_small_concatenation(False, ())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_variances_and_norms_of_long_rows(dtype, rng):
    x = (rng.normal(size=300_000) + 1000).astype(dtype)
    wide = x.astype(np.longdouble)
    tolerance = 4 * np.finfo(dtype).eps
    for shape, axis in (((-1,), None), ((300, 1000), 1), ((1000, 300), 0), ((10, 3000, 10), 1)):
        given = plugrad.asarray(x.reshape(shape))
        folded = wide.reshape(shape)
        np.testing.assert_allclose(
            plugrad.var(given, axis=axis).numpy(), folded.var(axis), tolerance * 4
        )
        norms = np.sqrt((folded * folded).sum(axis))
        np.testing.assert_allclose(
            plugrad.euclidean_norm(given, axis=axis).numpy(), norms, tolerance
        )


@pytest.mark.parametrize("size", [2, 300_000])
def test_norms_whose_squares_overflow_or_vanish(size):
    for dtype, scales in (("float32", (1e30, 1e-30)), ("float64", (1e300, 1e-300))):
        for scale in scales:
            x = np.zeros(size, dtype)
            x[0], x[-1] = 3 * scale, 4 * scale
            for shape, axis in (((-1,), 0), ((-1, 1), 0), ((1, -1), 1)):
                norm = plugrad.euclidean_norm(plugrad.asarray(x.reshape(shape)), axis=axis)
                np.testing.assert_allclose(norm.numpy(), 5 * scale, 1e-6)


def test_without_the_pack_numpy_makes_small_results(monkeypatch):
    """Otherwise few elements would have other bits than many."""
    device = open_backend("cpu")
    tables = device.kernels
    own = list(tables)[-1]

    def name_of_implementation():
        return device.complete_implementation([tables[own]["Elu"]], print).__name__

    assert name_of_implementation() == "small_result"
    monkeypatch.setattr(device, "kernels", {own: tables[own]})
    assert name_of_implementation() == "print"
