"""Softmax, batch normalization and local response normalization."""

import numpy as np
import pytest
import scipy

import plugrad
from families.case import Case, ErrorCase
from families.domains import integers, uniform
from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    AxisError,
    DTypeError,
    ShapeError,
)
from plugrad.kernels import normalization

SOFTMAX_OPS_AND_REFERENCES = [
    (plugrad.softmax, scipy.special.softmax),
    (plugrad.log_softmax, scipy.special.log_softmax),
]
CASES = [
    Case(op, reference, [uniform(-3, 3)], [shape], {"axis": axis})
    for op, reference in SOFTMAX_OPS_AND_REFERENCES
    for shape in [(3, 5), (2, 3, 7)]
    for axis in (-1, 0, 1)
]


@pytest.mark.rows("case", CASES, ids=lambda case: f"{case} {case.shapes[0]}")
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.rows("shape", [(1,), (5,), (67,), (3, 1), (1, 300), (4, 5, 1, 3)], ids=str)
@pytest.mark.parametrize(("op", "reference"), SOFTMAX_OPS_AND_REFERENCES)
def test_values_of_other_shapes(op, reference, shape, backend, rng):
    case = Case(op, lambda x: reference(x, axis=-1), [uniform(-3, 3)], [shape])
    case.check_values(rng)


@pytest.mark.rows("case", CASES, ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.parametrize(("op", "reference"), SOFTMAX_OPS_AND_REFERENCES)
def test_whole_numbers_become_float32(op, reference, backend, rng):
    case = Case(op, lambda x: reference(x, axis=-1), [integers(-3, 3)], result="float32")
    case.check_values(rng)


@pytest.mark.rows("case", CASES, ids=lambda case: f"{case} {case.shapes[0]}")
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


@pytest.mark.parametrize("shape", [(66_001,), (263, 251), (2, 129, 257)], ids=str)
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize(("op", "reference"), SOFTMAX_OPS_AND_REFERENCES)
def test_many_elements(op, reference, axis, shape, backend, rng):
    Case(op, reference, [uniform(-3, 3)], [shape], {"axis": axis}).check_values(rng)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("op", "reference"), SOFTMAX_OPS_AND_REFERENCES)
def test_large_numbers_do_not_overflow(op, reference, axis, backend):
    x = np.array([[1000, 1001, -1000], [3e38, -3e38, 0], [-1e30, -1e30, -1e30]], "float32")
    with np.errstate(over="ignore"):
        Case(op, reference, [], attrs={"axis": axis}).check_values_of_arrays([x])


@pytest.mark.parametrize(("op", "reference"), SOFTMAX_OPS_AND_REFERENCES)
def test_special_values(op, reference, backend):
    x = np.array([[0, 1, -np.inf], [np.nan, 1, 2]], "float32")
    Case(op, lambda x: reference(x, axis=1), []).check_values_of_arrays([x])


@pytest.mark.parametrize("op", [plugrad.softmax, plugrad.log_softmax])
def test_softmax_of_a_row_with_infinity_as_its_maximum_is_nan(op, backend):
    with np.errstate(invalid="ignore"):
        y = op(plugrad.asarray([[np.inf, 1, 2], [-np.inf, -np.inf, -np.inf], [0, 0, 0]]))
    assert np.isnan(y.numpy()).tolist() == [[True] * 3, [True] * 3, [False] * 3]


@pytest.mark.parametrize(("op", "reference"), SOFTMAX_OPS_AND_REFERENCES)
def test_empty_tensors(op, reference, backend):
    for shape in [(0, 3), (3, 0)]:
        y = op(plugrad.zeros(shape))
        assert (y.shape, y.dtype) == (shape, "float32")


@pytest.mark.rows("case", CASES, ids=lambda case: f"{case} {case.shapes[0]}")
def test_gradient(case, backend, rng):
    case.check_gradient(rng, backend)


def np_batch_norm(x, mean, variance, offset=0, scale=1, variance_epsilon=0.001):
    return offset + (x - mean) * scale / np.sqrt(variance + variance_epsilon)


def np_batch_norm_without_offset(x, mean, variance, scale):
    return np_batch_norm(x, mean, variance, 0, scale)


def batch_norm_without_offset(x, mean, variance, scale):
    return plugrad.batch_norm(x, mean, variance, None, scale)


number, positive = uniform(-2, 2), uniform(0.2, 2)
BATCH_NORM_DOMAINS = [number, number, positive]
BATCH_NORM_CASES = [
    Case(plugrad.batch_norm, np_batch_norm, domains, shapes, attrs, name=f"batch_norm {label}")
    for label, domains, shapes, attrs in [
        ("channels", BATCH_NORM_DOMAINS, [(3, 5), (5,), (5,)], {}),
        ("images", [*BATCH_NORM_DOMAINS, number, number], [(2, 3, 4, 5), *[(5,)] * 4], {}),
        (
            "offset",
            [*BATCH_NORM_DOMAINS, number],
            [(2, 3, 5), *[(5,)] * 3],
            {"variance_epsilon": 0.5},
        ),
        ("full", [*BATCH_NORM_DOMAINS, number, number], [(3, 5)] * 5, {}),
        (
            "mixed",
            [*BATCH_NORM_DOMAINS, number, number],
            [(2, 3, 4), (3, 1), (4,), (), (2, 1, 1)],
            {},
        ),
        ("vector", [*BATCH_NORM_DOMAINS, number, number], [(7,), *[(1,)] * 4], {}),
        ("number", BATCH_NORM_DOMAINS, [()] * 3, {}),
        ("nothing", BATCH_NORM_DOMAINS, [(0, 3), (3,), (3,)], {}),
    ]
] + [
    Case(
        *(
            batch_norm_without_offset,
            np_batch_norm_without_offset,
            [*BATCH_NORM_DOMAINS, number],
            [(2, 3, 5), (5,), (3, 1), (5,)],
        ),
        name="batch_norm scale",
    )
]


def np_local_response_normalization(x, *, depth_radius=5, bias=1, alpha=1, beta=0.5):
    norm = np.empty_like(x)
    for i in range(x.shape[-1]):
        near = x[..., max(i - depth_radius, 0) : i + depth_radius + 1]
        norm[..., i] = bias + alpha * np.sum(near**2, axis=-1)
    return x / norm**beta


def np_local_response_normalization_gradient(
    x, y, dy, *, depth_radius=5, bias=1, alpha=1, beta=0.5
):
    dx = np.zeros_like(x)
    for i in range(x.shape[-1]):
        near = slice(max(i - depth_radius, 0), i + depth_radius + 1)
        norm = bias + alpha * np.sum(x[..., near] ** 2, axis=-1)
        dx[..., i] += dy[..., i] * norm**-beta
        share = -2 * alpha * beta * dy[..., i] * y[..., i] / norm
        dx[..., near] += x[..., near] * share[..., None]
    return dx


RESPONSE_ATTRIBUTES = [
    {},
    {"depth_radius": 1},
    {"depth_radius": 2, "bias": 1.5, "alpha": 0.5, "beta": 0.75},
    {"depth_radius": 0, "beta": 1.0},
]
RESPONSE_CASES = [
    Case(
        plugrad.local_response_normalization,
        np_local_response_normalization,
        [number],
        [shape],
        attrs,
    )
    for attrs in RESPONSE_ATTRIBUTES
    for shape in [(2, 3, 2, 7), (3, 4), (1,)]
]
RESPONSE_GRADIENT_CASES = [
    Case(
        *(
            normalization.local_response_normalization_gradient,
            np_local_response_normalization_gradient,
        ),
        *([number] * 3, [shape] * 3, attrs),
    )
    for attrs in RESPONSE_ATTRIBUTES
    for shape in [(2, 1, 2, 7), (3, 4), (1,)]
]
BATCH_AND_RESPONSE_CASES = [*BATCH_NORM_CASES, *RESPONSE_CASES, *RESPONSE_GRADIENT_CASES]


def case_id(case):
    return f"{case} {case.shapes[0]}"


@pytest.mark.rows("case", BATCH_AND_RESPONSE_CASES, ids=case_id)
def test_values_of_other_normalizations(case, backend, rng):
    case.check_values(rng)
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows(
    "case",
    BATCH_AND_RESPONSE_CASES[:6] + RESPONSE_CASES[3:5] + RESPONSE_GRADIENT_CASES[3:5],
    ids=case_id,
)
def test_other_normalizations_of_views(case, backend, rng):
    case.check_values_of_views(rng)


@pytest.mark.rows("case", BATCH_AND_RESPONSE_CASES, ids=case_id)
def test_gradient_of_other_normalizations(case, backend, rng):
    case.check_gradient(rng, backend)


def test_softmax_of_long_columns_is_as_exact_as_of_rows(backend, rng):
    x = rng.uniform(-1, 1, (200_003, 3)).astype("float32")
    expected = x - scipy.special.logsumexp(x.astype("float64"), axis=0)
    np.testing.assert_allclose(plugrad.softmax(x, axis=0).numpy(), np.exp(expected), rtol=1e-6)
    np.testing.assert_allclose(plugrad.log_softmax(x, axis=0).numpy(), expected, rtol=5e-7)


@pytest.mark.parametrize(("op", "reference"), SOFTMAX_OPS_AND_REFERENCES)
def test_short_rows(op, reference, backend, rng):
    """C computes several rows of less than 32 elements at once, one in each lane of a vector."""
    for length in (1, 2, 3, 4, 7, 8, 10, 15, 16, 17, 30, 31, 32, 33):
        for count in (1, 3, 4, 15, 16, 17, 35):
            x = rng.uniform(-20, 20, (count, length)).astype("f4")
            expected = reference(x.astype(float), axis=-1)
            np.testing.assert_allclose(op(plugrad.asarray(x)).numpy(), expected, 2e-6, 2e-6)


@pytest.mark.parametrize("length", [10, 33, 200])
@pytest.mark.parametrize(("op", "reference"), SOFTMAX_OPS_AND_REFERENCES)
def test_special_values_stay_in_their_rows(op, reference, length, backend, rng):
    x = rng.uniform(-3, 3, (37, length)).astype("f4")
    x[1, 2], x[3, 4], x[5, 6], x[7] = np.nan, np.inf, -np.inf, -np.inf
    x[9], x[9, 0], x[9, 1] = 0, -1e38, 1e38
    x[11, -1], x[13, -1], x[15, -1] = -np.inf, -50, 50
    y = op(plugrad.asarray(x)).numpy()
    assert np.isnan(y[[1, 3, 7]]).all() or op is plugrad.log_softmax
    others = np.delete(np.arange(37), [1, 3, 7])
    with np.errstate(divide="ignore"):
        expected = reference(x[others].astype(float), axis=-1)
    np.testing.assert_allclose(y[others], expected, 2e-6, 2e-6)


def test_softmax_of_many_in_half_precision(backend):
    if "float16" not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no float16")
    x = plugrad.zeros((4096, 2), dtype="float16")
    assert plugrad.softmax(x, axis=0)[0].tolist() == [1 / 4096, 1 / 4096]
    expected = [np.float16(-np.log(4096))] * 2
    y = plugrad.log_softmax(x, axis=0)
    assert (y[0].tolist(), y.dtype) == (expected, "float16")


def test_batch_norm_of_mixed_dtypes(backend):
    y = plugrad.batch_norm(plugrad.asarray([2, 4]), [1.0, 2.0], [3, 3], 1, variance_epsilon=1.0)
    assert (y.tolist(), y.dtype) == ([1.5, 2.0], "float32")


def test_special_values_in_other_normalizations(backend):
    x = np.array([[1, np.inf, -1], [np.nan, 2, 0]], "float32")
    attrs = {"depth_radius": 1}
    Case(
        plugrad.local_response_normalization, np_local_response_normalization, [], attrs=attrs
    ).check_values_of_arrays([x])
    mean, variance = np.array([[0, 1, np.nan], [-1, 0, 3]], "float32")
    Case(plugrad.batch_norm, np_batch_norm, []).check_values_of_arrays([x, mean, variance])


ERROR_CASES = [
    ErrorCase(lambda: plugrad.softmax([1.0], axis=1), AxisError, ["axis=1", "rank 1", "-1 to 0"]),
    ErrorCase(lambda: plugrad.log_softmax(1.0), AxisError, ["axis=-1", "0-d"]),
    ErrorCase(
        lambda: normalization.softmax(plugrad.asarray([1]), dim=0),
        DTypeError,
        ["Softmax", "int32", "float32", "astype"],
    ),
    ErrorCase(
        lambda: plugrad.batch_norm(np.ones((2, 3), "f"), [1.0, 2.0], [1.0]),
        ShapeError,
        ["FusedBatchNorm", "mean", "(2,)", "(2, 3)"],
    ),
    ErrorCase(
        lambda: plugrad.batch_norm([1.0], [[1.0], [2.0]], [1.0]),
        ShapeError,
        ["FusedBatchNorm", "mean", "(2, 1)", "(1,)"],
    ),
    ErrorCase(
        lambda: plugrad.batch_norm([1.0], ["a"], [1.0]), DTypeError, ["batch_norm (mean)", "string"]
    ),
    ErrorCase(
        lambda: plugrad.local_response_normalization([1.0], 0.5),
        ArgumentError,
        ["local_response_normalization", "depth_radius=0.5", "integer"],
    ),
    ErrorCase(
        lambda: plugrad.local_response_normalization([1.0], -1),
        ArgumentValueError,
        ["depth_radius=-1"],
    ),
    ErrorCase(lambda: plugrad.local_response_normalization(1.0), ShapeError, ["0-d"]),
    ErrorCase(
        lambda: normalization.local_response_normalization_gradient(
            *(plugrad.ones((2, 3)), plugrad.ones((2, 3)), plugrad.ones((3,)))
        ),
        ShapeError,
        ["LRNGrad", "(3,)"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_numbers_take_the_dtype_of_tensors(dtype, backend):
    if plugrad.as_dtype(dtype) not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no {dtype}")
    x = plugrad.asarray([[1.0, 2.0], [4.0, 8.0]], dtype=dtype)
    number = lambda value: plugrad.asarray(value, dtype=dtype)  # noqa: E731
    found = plugrad.batch_norm(x, 0.1, 3, 0.3, 2)
    expected = plugrad.batch_norm(x, number(0.1), number(3.0), number(0.3), number(2.0))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.numpy(), expected.numpy())
    assert plugrad.batch_norm(1, 0.0, 1.0).dtype == "float32"
    with pytest.raises(DTypeError, match=r"batch_norm \(mean\) does not take complex"):
        plugrad.batch_norm(x, 1j, 1.0)
