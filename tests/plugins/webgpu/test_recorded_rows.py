"""Row kernels of recorded graphs that compute the elementwise calls of their results: the bits of separate calls."""

from itertools import groupby

import numpy as np
import pytest

import plugrad
from plugins.webgpu.bits import assert_same_bits
from plugrad_webgpu.recording.segment import Segment

pytestmark = pytest.mark.usefixtures("run", "webgpu")  # which skip where there is no device


def gelu(x):
    return 0.5 * x * (1 + plugrad.tanh(0.8 * (x + 0.04 * x * x * x)))


def layer_gradient(x, scale, column):
    def loss(x):
        return plugrad.sum(plugrad.layer_norm(x, offset=None, scale=scale) * column)

    return plugrad.grad(loss)(x) * 2 + column


ROW_FUNCTIONS = {
    "softmax": lambda x, row, column: plugrad.softmax(x) * row + column,
    "softmax of columns": lambda x, row, column: gelu(plugrad.softmax(x, axis=0)) - row,
    "log_softmax": lambda x, row, column: plugrad.exp(plugrad.log_softmax(x)) * column,
    "layer_norm": lambda x, row, column: gelu(plugrad.layer_norm(x)) + x,
    "layer_norm with parameters": lambda x, row, column: plugrad.relu(
        plugrad.layer_norm(x, offset=row, scale=row) - column
    ),
    "layer_norm_gradient": layer_gradient,
    "sum": lambda x, row, column: plugrad.sqrt(plugrad.abs(plugrad.sum(x, axis=1))) * 3,
    "mean": lambda x, row, column: plugrad.mean(x, axis=1, keepdims=True) * column + 1,
    "maximum of columns": lambda x, row, column: gelu(plugrad.max(x, axis=0)) * row,
    "sum of all": lambda x, row, column: plugrad.exp(plugrad.sum(x) * 0.01) + 1,
}
MATRIX_SHAPES = [(32, 64), (33, 61), (16, 8), (20, 1), (1, 40), (2, 3), (40, 300)]


@pytest.fixture(params=[True, False], ids=["software", "hardware"])
def row_schedule(request, webgpu, monkeypatch):
    """Use each of the two schedules of row kernels: one invocation or one workgroup for each row."""
    monkeypatch.setattr(plugrad.zeros(1).backend.active_device, "is_software", request.param)


def dispatch_labels(jitted):
    """Return the labels of the dispatches of a recording with one segment."""
    ((program, *_),) = jitted._programs.values()
    ((part, _),) = program.run.compiled.parts
    assert type(part) is Segment
    return [each.plan.program.label for each in part.work]


def as_arrays(result):
    """Return the results of a function as NumPy arrays."""
    results = result if isinstance(result, tuple) else (result,)
    return [y.numpy() for y in results]


def assert_same_bits_when_traced(function, *inputs):
    """Check that a jitted function returns the bits of the untraced one; return the labels of its dispatches.

    All NaN count as equal: WGSL leaves their sign and payload open, and what the driver optimizes decides.
    """
    jitted = plugrad.jit(function)
    expected = as_arrays(function(*inputs))
    for _ in range(2):
        for y, z in zip(as_arrays(jitted(*inputs)), expected, strict=True):
            assert_same_bits(y, z)
    return dispatch_labels(jitted)


@pytest.mark.usefixtures("row_schedule")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ROW_FUNCTIONS)
def test_calls_behind_a_row_kernel_have_the_bits_of_separate_ones(name, dtype, rng):
    for rows, columns in MATRIX_SHAPES:
        values = rng.standard_normal((rows, columns)), rng.standard_normal(columns)
        column = rng.standard_normal((rows, 1))
        given = [
            plugrad.astype(plugrad.asarray(v.astype("float32")), dtype) for v in (*values, column)
        ]
        assert_same_bits_when_traced(ROW_FUNCTIONS[name], *given)


@pytest.mark.parametrize("shape", [(32, 64), (33, 61)], ids=str)
@pytest.mark.parametrize("name", ROW_FUNCTIONS)
def test_a_row_kernel_and_its_calls_are_one_dispatch(name, shape, rng):
    rows, columns = shape
    x, row, column = (
        plugrad.asarray(rng.standard_normal(s).astype("float32"))
        for s in (shape, columns, (rows, 1))
    )
    labels = assert_same_bits_when_traced(ROW_FUNCTIONS[name], x, row, column)
    assert "; " in labels[-1]
    kernels = "reduction", "layer_norm", "exponentials", "shifted"
    assert labels[-1].startswith(kernels)


@pytest.mark.parametrize("values", [[np.nan, np.inf, -np.inf, 1], [-0.0, 0.0, 1e38, 1e-40]])
def test_special_values_in_recorded_row_kernels(values):
    x = plugrad.asarray(np.tile(np.float32(values), (17, 2)))
    for name in ("softmax", "log_softmax", "layer_norm", "sum", "maximum of columns"):
        assert_same_bits_when_traced(ROW_FUNCTIONS[name], x, x[0], x[:, :1])


@pytest.mark.parametrize("shape", [(0, 8), (8, 0), (0, 0)], ids=str)
def test_empty_rows(shape):
    x, row, column = plugrad.zeros(shape), plugrad.zeros(shape[1]), plugrad.zeros((shape[0], 1))
    assert_same_bits_when_traced(
        lambda x, row, column: plugrad.layer_norm(x) * row + column, x, row, column
    )
    assert_same_bits_when_traced(lambda x: plugrad.sum(x, axis=1) * 2 + 1, x)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "bool"])
def test_reductions_of_other_dtypes(dtype, rng):
    x = plugrad.asarray(rng.integers(0, 2, (24, 36)).astype(dtype))

    def f(x):
        if dtype == "bool":
            return plugrad.logical_not(plugrad.all(x, axis=1))
        total = plugrad.sum(x, axis=1)
        return total * total + plugrad.astype(total, "float32")

    # A GPU reduces rows in several passes.
    assert all(label.startswith("reduction") for label in assert_same_bits_when_traced(f, x))


def test_calls_after_local_response_normalization_are_merged(rng):
    x = plugrad.asarray(rng.standard_normal((2, 3, 5, 7)).astype("float32"))
    assert (
        len(
            assert_same_bits_when_traced(
                lambda x: plugrad.local_response_normalization(x) * x + 1, x
            )
        )
        == 1
    )


def test_row_kernel_result_that_other_calls_read_is_written(rng):
    x = plugrad.asarray(rng.standard_normal((24, 24)).astype("float32"))

    def f(x):
        y = plugrad.softmax(x)
        z = plugrad.exp(y) + 1
        return y, z, z @ y

    first, *_ = assert_same_bits_when_traced(f, x)
    assert first.endswith("; exp_accurate(x); a + b")


def test_calls_that_read_two_row_kernels(rng):
    x = plugrad.asarray(rng.standard_normal((24, 24)).astype("float32"))
    assert (
        len(
            assert_same_bits_when_traced(
                lambda x: plugrad.softmax(x) * plugrad.layer_norm(x) + 1, x
            )
        )
        == 2
    )
    assert (
        len(
            assert_same_bits_when_traced(
                lambda x: plugrad.softmax(plugrad.layer_norm(x) * 2) - 1, x
            )
        )
        == 2
    )


def test_a_result_that_is_read_in_another_order_is_written(rng):
    x = plugrad.asarray(rng.standard_normal((24, 24)).astype("float32"))
    assert_same_bits_when_traced(lambda x: plugrad.softmax(x).T * 2 + 1, x)
    assert_same_bits_when_traced(lambda x: plugrad.softmax(x)[0] * x, x)  # repeated along the rows
    assert_same_bits_when_traced(lambda x: plugrad.softmax(x).reshape(-1) * 2, x)
    assert_same_bits_when_traced(
        lambda x: plugrad.sum(plugrad.astype(x, "complex64"), axis=1) * 2j + 1, x
    )  # pairs
    assert_same_bits_when_traced(
        lambda x: plugrad.softmax(x).reshape(-1, 2) * plugrad.ones((288, 1)) * x[0, :2], x
    )


def test_a_kernel_does_not_wait_if_that_takes_memory(rng):
    """A result can replace an operand of the same size, but a sum cannot."""
    x = plugrad.asarray(rng.standard_normal((64, 64)).astype("float32"))

    def total(x):
        y = x @ x
        total, z = plugrad.sum(y, axis=1), x @ x.T
        return (total + plugrad.max(z, axis=1)) * 2

    def rows(x):
        y = x @ x
        return plugrad.softmax(y) + plugrad.tanh(x @ x.T)

    labels = [
        label for label in assert_same_bits_when_traced(total, x) if not label.startswith("copy")
    ]
    # A GPU reduces rows in several passes.
    are_products = [is_one for is_one, _ in groupby(labels, lambda x: x.startswith("multiply"))]
    assert are_products == [True, False, True, False]
    labels = [
        label for label in assert_same_bits_when_traced(rows, x) if not label.startswith("copy")
    ]
    assert [label.startswith("multiply") for label in labels] == [True, True, False]


def test_calls_behind_windows_products_and_sums_of_wide_rows_are_computed_by_them(rng):
    x = plugrad.asarray(rng.standard_normal((2, 8, 8, 4)).astype("float32"))
    a, b = (plugrad.asarray(rng.standard_normal(n).astype("float32")) for n in ((16, 32), (32, 6)))
    wide = plugrad.asarray(rng.standard_normal((24, 256)).astype("float32"))

    def pool_gradient(x):
        return plugrad.grad(lambda x: plugrad.sum(plugrad.max_pool(x, 2) * 3))(x) * x - 1

    assert assert_same_bits_when_traced(pool_gradient, x)[-1].startswith("windows over stops; ")
    assert assert_same_bits_when_traced(lambda x: plugrad.avg_pool(x, 2) * 2 + 1, x)[-1].startswith(
        "windows over cells; "
    )
    for left, right in ((a[:2], b), (a, plugrad.tile(b, (1, 2)))):  # rows of 6 and of 12
        (label,) = assert_same_bits_when_traced(lambda a, b: (a @ b) * 2 - 1, left, right)
        assert label.endswith("; a * b; a - b")
    (label,) = assert_same_bits_when_traced(lambda x: plugrad.sum(x, axis=0) * 2 - x[0], wide)[-1:]
    assert label == "reduction a + b; a * b; a - b"


def test_unread_results_are_not_computed(rng):
    x, scale = (
        plugrad.asarray(rng.standard_normal(n).astype("float32")) for n in ((32, 64), (64,))
    )
    column = plugrad.ones((32, 1))
    labels = assert_same_bits_when_traced(ROW_FUNCTIONS["layer_norm_gradient"], x, scale, column)
    assert not any(label.startswith("reduction") for label in labels)  # gradients of parameters


def test_operands_with_several_parts_and_parameters_in_a_buffer(rng, monkeypatch):
    x = plugrad.asarray(rng.standard_normal((4, 8, 12, 20)).astype("float32"))
    some = [
        plugrad.asarray(rng.standard_normal(shape).astype("float32"))
        for shape in ((8, 1, 20), (4, 1, 12, 1), (12, 20), (4, 1, 1, 20))
    ]

    def f(x, a, b, c, d):
        return plugrad.layer_norm(x, axis=3) * a + b * c - plugrad.exp(d)

    monkeypatch.setattr(plugrad.zeros(1).backend.active_device, "part_bytes", 1 << 14)
    monkeypatch.setattr(plugrad.zeros(1).backend.active_device, "_has_large", True)
    assert_same_bits_when_traced(f, x, *some)
