"""Statistics along axes: variances, norms, differences."""

import warnings

import numpy as np
import pytest
import scipy

import plugrad
from families.case import FLOAT_DTYPES, REAL_DTYPES, Case, ErrorCase
from families.domains import constant, repeated_integers, uniform
from plugrad.errors import ArgumentValueError, AxisError, DTypeError, ShapeError
from plugrad.testing import check_gradient

AXES = [None, 0, -1, (0, 2), (1, 2), ()]
SHAPE = (3, 4, 5)
any_number = uniform(-3, 3)


def np_moments(x, **attrs):
    return [np.mean(x, **attrs), np.var(x, **attrs)]


def moments(x, **attrs):
    return list(plugrad.moments(x, **attrs))


def np_log_sum_exp(x, *, axis=None, keepdims=False):
    return scipy.special.logsumexp(x, axis=axis, keepdims=keepdims)


def np_norm(x, *, axis=None, keepdims=False):
    return np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims))


AVERAGE_CASES = [
    Case(op, reference, [any_number], [SHAPE], {"axis": axis, **attrs})
    for op, reference, attrs in [
        (plugrad.var, np.var, {}),
        (plugrad.var, np.var, {"correction": 1}),
        (plugrad.std, np.std, {"correction": 0.5, "keepdims": True}),
        (moments, np_moments, {}),
        (moments, np_moments, {"keepdims": True}),
        (plugrad.euclidean_norm, np_norm, {}),
        (plugrad.euclidean_norm, np_norm, {"keepdims": True}),
        (plugrad.log_sum_exp, np_log_sum_exp, {}),
        (plugrad.log_sum_exp, np_log_sum_exp, {"keepdims": True}),
    ]
    for axis in AXES
    if axis != () or "correction" not in attrs
]
DIFF_CASES = [
    Case(plugrad.diff, np.diff, [any_number], [shape], attrs, REAL_DTYPES)
    for shape, attrs in [
        ((7,), {}),
        (SHAPE, {"axis": 0}),
        (SHAPE, {"axis": 1, "n": 2}),
        (SHAPE, {"n": 5}),
        (SHAPE, {"n": 9}),
        (SHAPE, {"n": 0}),
        ((0, 3), {"axis": 0}),
        (SHAPE, {"prepend": 1}),
    ]
] + [
    Case(
        lambda x, a, b, **attrs: plugrad.diff(x, prepend=a, append=b, **attrs),
        lambda x, a, b, **attrs: np.diff(x, prepend=a, append=b, **attrs),
        *([any_number] * 3, [SHAPE, (3, 2, 5), (3, 1, 5)], {"axis": 1, "n": n}),
        name=f"diff between n={n}",
    )
    for n in (1, 2)
]
CASES = [*AVERAGE_CASES, *DIFF_CASES]
COUNT_NONZERO_CASES = [
    Case(
        *(plugrad.count_nonzero, np.count_nonzero, [repeated_integers(-1, 1)], [SHAPE]),
        {"axis": axis, "keepdims": keepdims},
        *((*FLOAT_DTYPES, "int32", "int8", "bool"), "int32", {}, False),
    )
    for axis in AXES[:-1]
    for keepdims in (False, True)
]


@pytest.mark.rows("case", [*CASES, *COUNT_NONZERO_CASES], ids=str)
def test_values(case, backend, rng):
    case.check_values(rng)
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows("case", [*CASES[::6], COUNT_NONZERO_CASES[3]], ids=str)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


@pytest.mark.rows("case", CASES, ids=str)
def test_gradient(case, backend, rng):
    case.check_gradient(rng, backend)


@pytest.mark.rows("shape", [(), (1,), (0,), (2, 0, 3)], ids=str)
@pytest.mark.parametrize(
    ("op", "reference"),
    [
        (plugrad.var, np.var),
        (plugrad.std, np.std),
        (moments, np_moments),
        (plugrad.euclidean_norm, np_norm),
        (
            plugrad.log_sum_exp,
            lambda x: scipy.special.logsumexp(x) if x.size else np.array(-np.inf),
        ),
    ],
)
def test_values_of_single_elements_and_empty_tensors(op, reference, shape, backend, rng):
    with warnings.catch_warnings(action="ignore"):  # NumPy warns of averages of nothing
        expected = reference(np.ones(shape))
    Case(op, lambda x: expected, [constant(np.ones(shape))], [shape]).check_values(rng)


def test_whole_numbers_become_float32(backend):
    for op in (plugrad.var, plugrad.std, plugrad.log_sum_exp, plugrad.euclidean_norm):
        assert op(plugrad.asarray([3, 4])).dtype == "float32"
    assert plugrad.euclidean_norm([3, 4]).item() == 5


@pytest.mark.parametrize("correction", [2, 3.5])
def test_variance_without_degrees_of_freedom_is_nan(correction, backend):
    assert np.isnan(plugrad.var([1.0, 2.0], correction=correction).item())
    assert np.isnan(plugrad.std([1.0, 2.0], correction=correction).item())


def test_variance_far_from_zero_is_exact(backend):
    assert plugrad.var([1e6, 1e6 + 1, 1e6 + 2]).item() == pytest.approx(2 / 3)


def test_variance_of_more_numbers_than_half_precision_counts(backend):
    if "float16" not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no float16")
    x = np.array([1, 3] * 40_000, "float16")
    assert plugrad.var(x).item() == 1
    assert plugrad.std(x, correction=1).item() == 1


@pytest.mark.parametrize(
    ("x", "result"),
    [
        ([-np.inf, -np.inf], -np.inf),
        ([-np.inf, 3.0], 3.0),
        ([np.inf, 1.0], np.inf),
        ([np.inf, -np.inf], np.inf),
        ([np.nan, 1.0], np.nan),
        ([1e30, -1e30], 1e30),
        ([-1000.0, -1000.0], -1000 + np.log(2)),
    ],
)
def test_log_sum_exp_of_special_values(x, result, backend):
    assert plugrad.log_sum_exp(x).item() == pytest.approx(result, nan_ok=True)


def test_log_sum_exp_of_empty_tensors(backend):
    assert plugrad.log_sum_exp(plugrad.zeros((0, 2)), axis=0).tolist() == [-np.inf, -np.inf]
    assert plugrad.log_sum_exp(plugrad.zeros((0, 2)), axis=1).shape == (0,)


@pytest.mark.parametrize(
    ("op", "x"),
    [
        (plugrad.std, [2.0, 2.0]),
        (plugrad.euclidean_norm, [0.0, 0.0]),
        (plugrad.log_sum_exp, [-np.inf, -np.inf]),
    ],
)
def test_gradient_where_it_has_no_limit_is_zero(op, x, backend):
    assert plugrad.grad(op)(plugrad.asarray(x)).tolist() == [0, 0]


def test_order_of_differences_may_be_given_by_place(backend):
    assert plugrad.diff([1, 4, 9, 16], 2).tolist() == np.diff([1, 4, 9, 16], 2).tolist()


def test_diff_beside_other_dtypes(backend):
    y = plugrad.diff(plugrad.asarray([1, 2], dtype="int32"), append=plugrad.asarray([4.5]))
    assert (y.tolist(), y.dtype) == ([1.0, 2.5], "float32")


def test_nan_counts_as_not_zero(backend):
    assert plugrad.count_nonzero([np.nan, 0.0, -0.0, 1e-30]).item() == 2


ERROR_CASES = [
    ErrorCase(lambda: plugrad.var([1.0], axis=1), AxisError, ["axis=1", "rank 1"]),
    ErrorCase(lambda: plugrad.std(["a"]), DTypeError, ["std", "string"]),
    ErrorCase(lambda: plugrad.log_sum_exp([[1.0]], axis=(0, 0)), AxisError, ["(0, 0)", "twice"]),
    ErrorCase(lambda: plugrad.moments([1.0], axis=2), AxisError, ["axis=2"]),
    ErrorCase(lambda: plugrad.euclidean_norm([1.0], axis=-2), AxisError, ["axis=-2"]),
    ErrorCase(lambda: plugrad.count_nonzero(1, axis=0), AxisError, ["axis=0", "0-d"]),
    ErrorCase(lambda: plugrad.diff([1.0], n=-1), ArgumentValueError, ["diff", "n=-1"]),
    ErrorCase(lambda: plugrad.diff(1.0), AxisError, ["axis=-1", "0-d"]),
    ErrorCase(lambda: plugrad.diff([True, False]), DTypeError, ["diff", "bool"]),
    ErrorCase(lambda: plugrad.diff([[1.0]], prepend=[1.0]), ShapeError, ["diff", "(1,)", "(1, 1)"]),
    ErrorCase(
        lambda: plugrad.diff([[1.0]], append=[[1.0], [2.0]]), ShapeError, ["Concat", "axis 1"]
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()


@pytest.mark.parametrize("rowvar", [True, False])
@pytest.mark.parametrize("weights", ["", "fweights", "aweights", "fweights aweights"])
def test_covariances(weights, rowvar, backend, rng):
    given = {"fweights": np.array([1, 2, 0, 1, 3, 1, 1]), "aweights": rng.uniform(size=7)}
    options = {name: given[name] for name in weights.split()}
    for dtype in FLOAT_DTYPES:
        if dtype not in plugrad.which().backend.dtypes():
            continue
        allowed = 1e-5 if dtype == "float32" else 1e-13
        x = rng.normal(size=(3, 7)).astype(dtype)
        x = x if rowvar else x.T
        for correction in (0, 1):
            found = plugrad.cov(
                x,
                rowvar=rowvar,
                correction=correction,
                **{name: w.astype(dtype) for name, w in options.items()},
            )
            expected = np.cov(x, rowvar=rowvar, ddof=correction, **options)
            assert (found.dtype, found.shape) == (dtype, (3, 3))
            np.testing.assert_allclose(found, expected, rtol=allowed, atol=allowed)
        np.testing.assert_allclose(
            plugrad.corrcoef(x, rowvar=rowvar),
            np.corrcoef(x, rowvar=rowvar),
            rtol=allowed,
            atol=allowed,
        )


def test_covariances_of_one_variable_and_of_complex_ones(backend):
    assert plugrad.cov([1.0, 2.0, 6.0]).item() == 7
    assert plugrad.corrcoef([1.0, 2.0, 6.0]).item() == 1
    assert plugrad.cov([[1, 2, 6]]).shape == ()
    x = np.array([[1 + 1j, 2, 3j], [1, 1j, 2.0]], "complex64")
    np.testing.assert_allclose(plugrad.cov(x), np.cov(x), rtol=1e-5)
    np.testing.assert_allclose(plugrad.corrcoef(x), np.corrcoef(x), rtol=1e-5)
    assert np.isnan(plugrad.corrcoef([[1.0, 1.0], [1.0, 2.0]]).numpy()[0]).all()
    for call in (
        lambda: plugrad.cov(np.zeros((2, 2, 2), "float32")),
        lambda: plugrad.cov([[1.0, 2.0]], aweights=[1.0]),
    ):
        with pytest.raises(ShapeError):
            call()


def test_gradients_of_covariances(rng):
    weights = rng.uniform(size=4)
    with plugrad.use("cpu"):
        x = plugrad.asarray(rng.normal(size=(3, 4)))
        check_gradient(plugrad.corrcoef, x)
        check_gradient(lambda x, w: plugrad.cov(x, aweights=w), x, plugrad.asarray(weights))
