"""Cumulative sums and products."""

import numpy as np
import pytest

import plugrad
from families.case import Case, ErrorCase, conformance_cases
from families.domains import constant, uniform
from plugrad.errors import ArgumentValueError, AxisError, DTypeError
from plugrad.kernels import scan
from plugrad.testing.tables.scan import accumulate


def np_cumulative_sum(x, *, axis, exclusive=False, reverse=False):
    return accumulate(x, np.add, axis, exclusive, reverse)


def np_cumulative_product(x, *, axis, exclusive=False, reverse=False):
    return accumulate(x, np.multiply, axis, exclusive, reverse)


SCAN_ATTRIBUTES = [
    {"axis": axis, "exclusive": exclusive, "reverse": reverse}
    for axis in (0, -1)
    for exclusive in (False, True)
    for reverse in (False, True)
]
DTYPES = ("float32", "float64", "int32", "int64", "uint32", "complex64")
OP_CASES = [
    Case(op, reference, [uniform(-2, 2)], [shape], attrs, DTYPES)
    for op, reference in [
        (plugrad.cumulative_sum, np_cumulative_sum),
        (plugrad.cumulative_prod, np_cumulative_product),
    ]
    for shape, attrs in [
        ((4, 5), {"axis": -1}),
        ((2, 1, 3, 2), {"axis": -3, "exclusive": True}),
    ]
]
CASES = [*conformance_cases("scan"), *OP_CASES]


def case_id(case):
    return f"{case} {' '.join(map(str, case.shapes))}".replace(", ", ",")


@pytest.mark.rows("case", CASES, ids=case_id)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.rows("case", CASES, ids=case_id)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


# The rows of the table are tried as views by tests/properties/test_invariances.py.
@pytest.mark.rows("case", OP_CASES, ids=case_id)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


def test_many_elements(backend, rng):
    for way in SCAN_ATTRIBUTES:
        case = Case(
            plugrad.cumulative_sum, np_cumulative_sum, [uniform(-3, 3)], (), way, is_sum=True
        )
        for shape in [(1031, 3), (3, 1031)]:
            case.with_shapes(shape).check_values(rng)


@pytest.mark.parametrize(
    ("op", "reference"),
    [(plugrad.cumulative_sum, np_cumulative_sum), (plugrad.cumulative_prod, np_cumulative_product)],
)
@pytest.mark.rows("way", SCAN_ATTRIBUTES, ids=str)
def test_special_values(op, reference, way, backend):
    x = np.array([[1, np.nan, 2], [np.inf, 3, -np.inf], [np.inf, 0, 5]], "float32")
    Case(op, reference, [], attrs=way).check_values_of_arrays([x])


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((70_000,), 0), ((3, 5000, 4), 1), ((70, 2000), 1), ((2000, 70), 0)],
    ids=str,
)
@pytest.mark.parametrize("way", [{}, {"exclusive": True}, {"reverse": True}], ids=str)
def test_long_sums_keep_their_precision(shape, axis, way, backend):
    x = np.full(shape, 0.1, "float32")
    steps = np.arange(shape[axis]) + (0 if way.get("exclusive") else 1)
    steps = steps[::-1] if way.get("reverse") else steps
    lines = steps.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    expected = np.broadcast_to(lines * np.float64(x.flat[0]), shape)
    sums = plugrad.cumulative_sum(x, axis=axis, **way).numpy()
    np.testing.assert_allclose(sums, expected, rtol=1e-6)


def test_results_stay_in_half_precision(backend):
    if "float16" not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no float16")
    x = plugrad.asarray(np.array([1, 2, 3], "float16"))
    assert plugrad.cumulative_sum(x).dtype == plugrad.cumulative_prod(x).dtype == "float16"
    assert plugrad.cumulative_prod(x).tolist() == [1, 2, 6]


def test_half_precision_goes_on_beyond_2048(backend):
    if "float16" not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no float16")
    assert plugrad.cumulative_sum(plugrad.ones((4096,), dtype="float16"))[-1].item() == 4096


def test_sums_of_small_integers_have_a_wider_dtype(backend):
    for dtype, wider in [("int8", "int32"), ("uint8", "uint32")]:
        if {dtype, wider} <= set(plugrad.which().backend.dtypes()):
            sums = plugrad.cumulative_sum(plugrad.asarray([100, 100, 100], dtype=dtype))
            assert (sums.dtype, sums.tolist()) == (wider, [100, 200, 300])


def test_bools_are_counted(backend):
    assert plugrad.cumulative_sum([True, False, True]).tolist() == [1, 1, 2]
    assert plugrad.cumulative_sum([True, False, True]).dtype == "int32"
    assert plugrad.cumulative_prod([True, False, True]).tolist() == [1, 0, 0]


def test_requested_dtype(backend):
    assert plugrad.cumulative_sum([1, 2], dtype="float32").dtype == "float32"
    assert plugrad.cumulative_prod([1.5, 2.5], dtype="int32").tolist() == [1, 2]


@pytest.mark.parametrize(
    ("op", "reference", "nothing"),
    [(plugrad.cumulative_sum, np.cumsum, 0), (plugrad.cumulative_prod, np.cumprod, 1)],
)
@pytest.mark.rows("shape", [(4, 3), (0, 3), (4, 0)])
@pytest.mark.parametrize("axis", [0, 1])
def test_initial_value_comes_first(op, reference, nothing, shape, axis, backend, rng):
    x = rng.integers(-3, 3, shape).astype("float32")
    initial = np.full_like(x, nothing, shape=(1, shape[1]) if axis == 0 else (shape[0], 1))
    forth = np.concatenate([initial, reference(x, axis)], axis)
    back = np.concatenate([np.flip(reference(np.flip(x, axis), axis), axis), initial], axis)
    np.testing.assert_array_equal(op(x, axis=axis, include_initial=True), forth)
    np.testing.assert_array_equal(op(x, axis=axis, include_initial=True, reverse=True), back)


# --- gradients ------------------------------------------------------------------------------------


@pytest.mark.rows("case", [c for c in CASES if c.is_differentiable], ids=case_id)
def test_gradient(case, backend, rng):
    case.check_gradient(rng, backend)


@pytest.mark.parametrize("way", SCAN_ATTRIBUTES, ids=str)
@pytest.mark.rows(
    "zeros", [[1.5, 0.0, -2.0, 0.5], [0.0, 1.5, 0.0, -2.0], [0.0, 0.0, 0.0, 1.0], [0.0] * 4]
)
def test_gradient_of_products_with_zeros(zeros, way, backend, rng):
    """With one zero only its own gradient is nonzero, with two none is; dividing the product would give NaN."""
    rows = np.array([zeros, [1.0, 2.0, 0.0, -1.0], [2.0, -0.5, 1.0, 3.0], [0.0, 1.0, 1.0, 2.0]])
    Case(
        plugrad.cumulative_prod, np_cumulative_product, [constant(rows)], attrs=way
    ).check_gradient(rng, backend)


def test_gradient_of_a_long_product(backend, rng):
    x = rng.uniform(0.9, 1.1, 1000)
    total = lambda x: plugrad.sum(plugrad.cumulative_prod(x))  # noqa: E731
    dx = plugrad.grad(total)(plugrad.asarray(x.astype("float32")))
    products = np.cumprod(x)
    np.testing.assert_allclose(
        dx.numpy(), np.cumsum(products[::-1])[::-1] / x, rtol=2e-5 * products.max()
    )


def test_gradient_with_the_initial_value(backend, rng):
    attrs = {"axis": 1, "include_initial": True}
    for op in (plugrad.cumulative_sum, plugrad.cumulative_prod):
        Case(op, op, [uniform(-2, 2)], [(2, 3)], attrs).check_gradient(rng, backend)


# --- refusals -------------------------------------------------------------------------------------

ERROR_CASES = [
    ErrorCase(
        lambda: plugrad.cumulative_sum(plugrad.ones((2, 3))),
        AxisError,
        ["cumulative_sum", "axis is needed", "(2, 3)"],
    ),
    ErrorCase(lambda: plugrad.cumulative_prod(1.0), AxisError, ["cumulative_prod", "0 axes"]),
    ErrorCase(
        lambda: plugrad.cumulative_prod(plugrad.ones((2, 3)), axis=2),
        AxisError,
        ["axis=2", "rank 2"],
    ),
    ErrorCase(lambda: plugrad.cumulative_sum(1.0, axis=0), AxisError, ["0-d"]),
    ErrorCase(
        lambda: plugrad.cumulative_sum([1.0], exclusive=True, include_initial=True),
        ArgumentValueError,
        ["cumulative_sum", "exclusive=True", "include_initial"],
    ),
    ErrorCase(
        lambda: plugrad.run_kernel("Cumsum", {"x": plugrad.ones(2)}, {"axis": 1}),
        AxisError,
        ["axis=1", "rank 1"],
    ),
    ErrorCase(
        lambda: scan.cumprod(plugrad.asarray([True]), axis=0), DTypeError, ["Cumprod", "bool"]
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()


# Only the cpu stores these dtypes on every machine.
DTYPE_ERROR_CASES = [
    ErrorCase(lambda: plugrad.cumulative_sum(["a"]), DTypeError, ["cumulative_sum", "string"]),
]


@pytest.mark.rows("error_case", DTYPE_ERROR_CASES, ids=str)
def test_unsupported_dtypes_are_rejected(error_case):
    with plugrad.use("cpu"):
        error_case.check()
