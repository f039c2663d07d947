"""Reductions along axes: sums, products, extremes, logical reductions and counts."""

from dataclasses import replace

import numpy as np
import pytest

import plugrad
from families.case import (
    FLOAT_DTYPES,
    REAL_DTYPES,
    Case,
    CustomTolerance,
    ErrorCase,
    conformance_cases,
)
from families.domains import bools, constant, distinct, integers, uniform
from plugrad.errors import ArgumentError, ArgumentValueError, AxisError, DTypeError, ShapeError

AXES = [None, 0, 1, 2, -1, (0, -1), (2, 0)]
LONG_SUM_REASON = "a sum of thousands of floats, which are added in another order"


def np_prod(x, *, axis=None, keepdims=False):
    return np.prod(x, axis=axis, keepdims=keepdims, dtype=x.dtype)


def np_sum(x, *, axis=None, keepdims=False):
    return np.sum(x, axis=axis, keepdims=keepdims, dtype=x.dtype)


any_number = uniform(-3, 3)
ACCUMULATOR_DTYPES = (*FLOAT_DTYPES, "int32", "int64", "uint32")
SUM_OPS = [
    (plugrad.sum, np_sum, any_number, ACCUMULATOR_DTYPES),
    (plugrad.prod, np_prod, uniform(-1.5, 1.5), ACCUMULATOR_DTYPES),
    (plugrad.mean, np.mean, any_number, FLOAT_DTYPES),
]
EXTREMUM_OPS = [
    (plugrad.max, np.max, distinct(), REAL_DTYPES),
    (plugrad.min, np.min, distinct(), REAL_DTYPES),
]
LOGICAL_OPS = [
    (plugrad.all, np.all, bools(), ("bool",)),
    (plugrad.any, np.any, bools(), ("bool",)),
]
ARG_OPS = [
    (plugrad.argmax, np.argmax, distinct(), REAL_DTYPES),
    (plugrad.argmin, np.argmin, distinct(), REAL_DTYPES),
]
OP_CASES = [
    *(
        Case(op, reference, [domain], [(3, 5, 7)], {"axis": axis}, dtypes)
        for op, reference, domain, dtypes in [*SUM_OPS, *EXTREMUM_OPS]
        for axis in AXES
    ),
    *(
        Case(op, reference, [domain], [(2, 3, 2)], {"axis": axis}, dtypes, is_differentiable=False)
        for op, reference, domain, dtypes in LOGICAL_OPS
        for axis in AXES
    ),
    *(
        Case(op, reference, [domain], [(3, 5, 7)], {"axis": axis}, dtypes, "int32", {}, False)
        for op, reference, domain, dtypes in ARG_OPS
        for axis in (None, 0, 1, 2, -1)
    ),
]
KERNEL_CASES = conformance_cases("reduction")
CASES = [*KERNEL_CASES, *OP_CASES]
DIFFERENTIABLE_CASES = [
    *(case for case in KERNEL_CASES if case.is_differentiable),
    *(
        Case(op, reference, [domain], [shape], {"axis": axis})
        for op, reference, domain, _ in [*SUM_OPS, *EXTREMUM_OPS]
        for shape, axis in [((2, 3, 4), None), ((2, 3, 4), -1), ((), None)]
    ),
]


@pytest.mark.rows("case", KERNEL_CASES, ids=str)
def test_values(case, backend, rng):
    case.check_values(rng, case.main_dtype)


@pytest.mark.rows("case", OP_CASES, ids=str)
def test_values_of_ops(case, backend, rng):
    for keepdims in (False, True):
        kept = replace(case, attrs={**case.attrs, "keepdims": keepdims})
        kept.check_values(rng, case.dtypes[0])


@pytest.mark.rows("case", CASES, ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


# The rows of the table are tried as views by tests/properties/test_invariances.py.
@pytest.mark.rows("case", OP_CASES, ids=str)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng, case.main_dtype)


@pytest.mark.parametrize(
    ("op", "reference", "domain", "dtypes"), [*SUM_OPS, *EXTREMUM_OPS, *LOGICAL_OPS, *ARG_OPS]
)
@pytest.mark.rows("shape", [(), (1,), (5,), (67,), (300,), (1, 1), (65, 1), (1, 65)])
def test_values_of_other_shapes(op, reference, domain, dtypes, shape, backend, rng):
    result = "int32" if op in (plugrad.argmax, plugrad.argmin) else ""
    for axis in [None, *range(len(shape))]:
        case = Case(op, reference, [domain], [shape], {"axis": axis}, result=result)
        case.check_values(rng, dtypes[0])


@pytest.mark.rows(
    ("shape", "axis"), [((66_001,), None), ((263, 251), 0), ((263, 251), 1), ((263, 251), None)]
)
@pytest.mark.parametrize(
    ("op", "reference", "domain"),
    [
        (plugrad.sum, np_sum, uniform(0.5, 1.5)),
        (plugrad.mean, np.mean, uniform(0.5, 1.5)),
        (plugrad.max, np.max, distinct(1 / 64)),
        (plugrad.argmin, np.argmin, distinct(1 / 64)),
    ],
)
def test_many_elements(op, reference, domain, shape, axis, backend, rng):
    result = "int32" if op is plugrad.argmin else ""
    loose = dict.fromkeys(["cpu", "wasm", "webgpu"], CustomTolerance(1e-5, LONG_SUM_REASON))
    Case(
        op, reference, [domain], [shape], {"axis": axis}, FLOAT_DTYPES, result, loose
    ).check_values(rng)


@pytest.mark.parametrize("columns", [2, 3, 5, 8, 16, 17])
def test_few_long_columns(columns, backend, rng):
    x = rng.uniform(-1, 2, (2, 301, columns)).astype("float32")
    x[1, 7, 0] = np.nan
    for op, reference in [(plugrad.sum, np.sum), (plugrad.max, np.max), (plugrad.min, np.min)]:
        expected = reference(x.astype("float64"), axis=1)
        np.testing.assert_allclose(
            op(plugrad.asarray(x), axis=1).numpy(), expected, rtol=2e-5, atol=2e-5
        )
    whole_numbers = rng.integers(-9, 9, (301, columns)).astype("int32")
    for op, reference in [(plugrad.sum, np.sum), (plugrad.max, np.max)]:
        result = op(plugrad.asarray(whole_numbers), axis=0).numpy()
        np.testing.assert_array_equal(result, reference(whole_numbers, axis=0))


@pytest.mark.parametrize(
    ("shape", "axis"), [((200_003, 3), 0), ((3, 70_001, 2), 1), ((90, 700, 3), (0, 1))]
)
@pytest.mark.parametrize("op", [plugrad.sum, plugrad.mean])
def test_long_columns_are_as_exact_as_rows(op, shape, axis, backend, rng):
    x = rng.uniform(0.5, 1.5, shape).astype("float32")
    expected = np.sum(x, axis, dtype="float64")
    if op is plugrad.mean:
        expected *= expected.size / x.size
    np.testing.assert_allclose(op(x, axis=axis).numpy(), expected, rtol=5e-7)


def test_half_precision_goes_on_beyond_2048(backend):
    if "float16" not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no float16")
    ones = plugrad.ones((4096, 2), dtype="float16")
    assert plugrad.sum(ones, axis=0).tolist() == [4096, 4096]
    assert plugrad.mean(1000 * ones, axis=0).tolist() == [1000, 1000]
    assert plugrad.mean(plugrad.ones((70_000,), dtype="float16")).item() == 1
    zeros = plugrad.zeros((4096,), dtype="int32")
    assert plugrad.bincount(zeros, ones[:, 0], size=1).tolist() == [4096]


@pytest.mark.parametrize(
    ("op", "reference"),
    [
        (plugrad.sum, np_sum),
        (plugrad.prod, np_prod),
        (plugrad.mean, np.mean),
        (plugrad.max, np.max),
        (plugrad.min, np.min),
    ],
)
@pytest.mark.parametrize("axis", [0, 1])
def test_special_values(op, reference, axis, backend):
    nan, inf = np.nan, np.inf
    x = np.array([[1, nan, 2], [inf, 1, 2], [-inf, 3, 1], [inf, -inf, 0], [0, 2, -1]], "float32")
    Case(op, reference, [], attrs={"axis": axis}).check_values_of_arrays([x])


@pytest.mark.parametrize("op", [plugrad.argmax, plugrad.argmin])
def test_position_of_the_first_nan_and_of_the_first_of_equals(op, backend):
    x = plugrad.asarray([[1.0, np.nan, 5.0, np.nan], [2.0, 2.0, 2.0, 2.0]])
    assert op(x, axis=1).tolist() == [1, 0]


def test_false_comes_before_true(backend):
    x = plugrad.asarray([[False, True, True], [True, False, False]])
    assert plugrad.argmax(x, axis=1).tolist() == [1, 0]
    assert plugrad.argmin(x, axis=1).tolist() == [0, 1]
    assert plugrad.max(x, axis=0).tolist() == [True, True, True]
    assert plugrad.min(x, axis=1, keepdims=True).tolist() == [[False], [False]]


def test_position_of_infinity(backend):
    x = plugrad.asarray([[-np.inf, -np.inf], [-np.inf, np.inf]])
    assert plugrad.argmax(x, axis=1).tolist() == [0, 1]
    assert plugrad.argmin(x, axis=1).tolist() == [0, 0]


@pytest.mark.rows("axis", [None, 0, 1])
@pytest.mark.parametrize(
    ("op", "reference", "dtype"),
    [
        (plugrad.sum, np_sum, "float32"),
        (plugrad.sum, np_sum, "int32"),
        (plugrad.prod, np_prod, "float32"),
        (plugrad.all, np.all, "bool"),
        (plugrad.any, np.any, "bool"),
    ],
)
def test_values_of_empty_tensors(op, reference, dtype, axis, backend):
    for shape in [(0, 3), (3, 0), (64, 0), (0, 0)]:
        Case(op, reference, [], attrs={"axis": axis}).check_values_of_arrays(
            [np.zeros(shape, dtype)], dtype
        )


def test_mean_of_an_empty_tensor_is_nan(backend):
    assert np.isnan(plugrad.mean(plugrad.zeros((0, 2)), axis=0).numpy()).all()
    assert plugrad.mean(plugrad.zeros((0, 2)), axis=1).shape == (0,)


@pytest.mark.parametrize("op", [plugrad.max, plugrad.min, plugrad.argmax, plugrad.argmin])
def test_extremes_of_tensors_with_another_empty_axis(op, backend):
    assert op(plugrad.zeros((0, 3)), axis=1).shape == (0,)
    assert op(plugrad.zeros((64, 0)), axis=0).shape == (0,)


@pytest.mark.parametrize(("op", "result"), [(plugrad.sum, 3), (plugrad.prod, 0)])
def test_bools_are_counted(op, result, backend):
    y = op(plugrad.asarray([True, False, True, True]))
    assert (y.dtype, y.item()) == ("int32", result)


@pytest.mark.parametrize(("op", "reference"), [(plugrad.sum, np.sum), (plugrad.prod, np.prod)])
@pytest.mark.parametrize(
    ("dtype", "result"),
    [("int8", "int32"), ("int16", "int32"), ("uint8", "uint32"), ("uint16", "uint32")],
)
def test_small_integers_do_not_overflow(op, reference, dtype, result, backend):
    if not {dtype, result} <= set(plugrad.which().backend.dtypes()):
        pytest.skip(f"{backend} has no {dtype} or no {result}")
    x = np.array([[120, 125, 2], [3, 100, 1]], dtype)
    for axis in (None, 0, 1):
        case = Case(op, lambda x, **a: reference(x, **a, dtype=int), [], attrs={"axis": axis})
        Case(op, case.reference, [], attrs=case.attrs, result=result).check_values_of_arrays(
            [x], dtype
        )


@pytest.mark.parametrize(("op", "result"), [(plugrad.sum, 7.0), (plugrad.prod, 12.0)])
def test_dtype_of_the_result(op, result, backend):
    y = op(plugrad.asarray([3, 4], dtype="int32"), dtype="float32")
    assert (y.dtype, y.item()) == ("float32", result)


@pytest.mark.parametrize(("op", "result"), [(plugrad.all, False), (plugrad.any, True)])
def test_any_and_all_of_numbers_compare_with_0(op, result, backend):
    assert op(plugrad.asarray([0.0, -0.5])).item() is result
    assert op(plugrad.asarray([0, 7])).item() is result


def test_mean_of_whole_numbers(backend):
    y = plugrad.mean(plugrad.asarray([1, 2], dtype="int32"))
    assert (y.dtype, y.item()) == ("float32", 1.5)


@pytest.mark.rows("case", DIFFERENTIABLE_CASES, ids=lambda case: f"{case} {case.shapes[0]}")
def test_gradient(case, backend, rng):
    case.check_gradient(rng, backend)


@pytest.mark.rows("zeros", [[], [1], [1, 2], [0, 1, 2, 3, 4]])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_gradient_of_prod_with_zeros(zeros, axis, backend, rng):
    x = rng.uniform(0.5, 1.5, (3, 5))
    x[:, zeros] = 0
    case = Case(plugrad.prod, np_prod, [constant(x)], attrs={"axis": axis})
    case.check_gradient(rng, backend)


@pytest.mark.parametrize("op", [plugrad.max, plugrad.min])
def test_equal_extremes_share_the_gradient(op, backend):
    x = plugrad.asarray([[2.0, 2.0, 2.0, 2.0]])
    assert plugrad.grad(op)(x).tolist() == [[0.25, 0.25, 0.25, 0.25]]


def np_bincount(x, weights=None, *, size):
    total = np.zeros(size, int if weights is None else weights.dtype)
    for number, weight in zip(
        x.flat, np.ones(x.size) if weights is None else weights.flat, strict=True
    ):
        if 0 <= number < size:
            total[number] += weight.astype(total.dtype)
    return total


def np_dense_bincount(x, weights=None, **attrs):
    if x.ndim == 2:
        shares = [None] * len(x) if weights is None else weights
        rows = [np_dense_bincount(*pair, **attrs) for pair in zip(x, shares, strict=True)]
        return np.array(rows).reshape(len(x), attrs["size"])
    total = np_bincount(x, weights, size=attrs["size"])
    occurs = np.isin(np.arange(len(total)), x)
    return occurs.astype(total.dtype) if attrs.get("binary_output") else total


def test_bincount_has_as_many_bins_as_the_numbers_need(backend):
    x, weights = np.array([[3, 1], [1, 0]], "int32"), np.float32([[1, 2], [3, 4]])
    for least in (0, 2, 6):
        found = plugrad.bincount(x, minlength=least)
        assert found.tolist() == np.bincount(x.ravel(), minlength=least).tolist()
        found = plugrad.bincount(x, weights, minlength=least)
        assert found.tolist() == np.bincount(x.ravel(), weights.ravel(), least).tolist()
    none = plugrad.zeros((0,), dtype=plugrad.int32)
    assert (plugrad.bincount(none).shape, plugrad.bincount(none, minlength=2).tolist()) == (
        (0,),
        [0, 0],
    )
    with pytest.raises(ArgumentValueError, match=r"x holds -1, .* give size to leave them out"):
        plugrad.bincount([2, -1])
    with pytest.raises(ArgumentError, match="size=3 and minlength=2; give one"):
        plugrad.bincount([2], size=3, minlength=2)


number_domain = integers(-1, 6)
BINCOUNT_CASES = [
    Case(plugrad.bincount, np_bincount, [number_domain], [shape], {"size": size}, result="int32")
    for shape, size in [((20,), 5), ((4, 3, 2), 9), ((), 3), ((0,), 2), ((5,), 0)]
] + [
    Case(
        plugrad.dense_bincount,
        np_dense_bincount,
        [number_domain],
        [shape],
        {"size": size, "binary_output": binary},
        result="int32",
    )
    for shape, size in [((20,), 5), ((4, 7), 6), ((0, 3), 2), ((3, 0), 2), ((3, 2), 0)]
    for binary in (False, True)
]
WEIGHTED_BINCOUNT_CASES = [
    Case(
        plugrad.bincount, np_bincount, [number_domain, uniform(-2, 2)], [shape] * 2, {"size": size}
    )
    for shape, size in [((20,), 5), ((4, 3, 2), 9), ((), 3), ((0,), 2), ((5,), 0)]
] + [
    Case(
        plugrad.dense_bincount,
        np_dense_bincount,
        [number_domain, uniform(0.5, 2)],
        [shape] * 2,
        {"size": size, "binary_output": binary},
    )
    for shape, size in [((20,), 5), ((4, 7), 6), ((0, 3), 2), ((3, 2), 0)]
    for binary in (False, True)
]


def case_id(case):
    return f"{case} {case.shapes[0]}"


@pytest.mark.rows("case", [*BINCOUNT_CASES, *WEIGHTED_BINCOUNT_CASES], ids=case_id)
def test_bin_counts(case, backend, rng):
    case.check_values(rng)
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows("case", [*BINCOUNT_CASES[1::5], *WEIGHTED_BINCOUNT_CASES[1::5]], ids=case_id)
def test_counts_of_views(case, backend, rng):
    case.check_values_of_views(rng)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint32", "uint64"])
def test_counts_of_other_integers(dtype, backend):
    if dtype not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no {dtype}")
    x = np.array([3, 1, 3, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
    case = Case(plugrad.bincount, np_bincount, [], attrs={"size": 4}, result="int32")
    case.check_values_of_arrays([x], dtype)


@pytest.mark.rows("case", WEIGHTED_BINCOUNT_CASES, ids=case_id)
def test_gradient_of_counts(case, backend, rng):
    case.check_gradient(rng, backend)


def test_gradient_of_empty_tensors(backend):
    for op in (plugrad.sum, plugrad.prod, plugrad.mean):
        gradient = plugrad.grad(lambda x, op=op: plugrad.sum(op(x, axis=0)))(plugrad.zeros((0, 3)))
        assert gradient.shape == (0, 3)


ERROR_CASES = [
    ErrorCase(lambda: plugrad.sum([1.0], axis=1), AxisError, ["axis=1", "rank 1", "-1 to 0"]),
    ErrorCase(lambda: plugrad.mean([1.0], axis=-2), AxisError, ["axis=-2", "rank 1"]),
    ErrorCase(lambda: plugrad.max([[1.0]], axis=(0, -2)), AxisError, ["(0, -2)", "twice"]),
    ErrorCase(lambda: plugrad.sum(1.0, axis=0), AxisError, ["axis=0", "0-d"]),
    ErrorCase(lambda: plugrad.sum([1.0], axis=0.5), AxisError, ["axis=0.5", "integer"]),
    ErrorCase(
        lambda: plugrad.max(plugrad.zeros((0, 3)), axis=0), ShapeError, ["Max", "(0, 3)", "axes"]
    ),
    ErrorCase(lambda: plugrad.min(plugrad.zeros((0,))), ShapeError, ["Min", "(0,)"]),
    ErrorCase(
        lambda: plugrad.argmax(plugrad.zeros((2, 0)), axis=1), ShapeError, ["ArgMax", "(2, 0)"]
    ),
    ErrorCase(lambda: plugrad.argmin(plugrad.zeros((0,))), ShapeError, ["ArgMin", "(0,)"]),
    ErrorCase(lambda: plugrad.max(["a"]), DTypeError, ["max", "string", "int32"]),
    ErrorCase(lambda: plugrad.argmin(["a"]), DTypeError, ["argmin", "string"]),
    ErrorCase(lambda: plugrad.max(plugrad.zeros((0, 0)), axis=0), ShapeError, ["Max", "(0, 0)"]),
    ErrorCase(
        lambda: plugrad.bincount([1.0], size=2), DTypeError, ["bincount", "float32", "integers"]
    ),
    ErrorCase(
        lambda: plugrad.bincount([1, 2], [1.0], size=2), ShapeError, ["Bincount", "(1,)", "(2,)"]
    ),
    ErrorCase(
        lambda: plugrad.dense_bincount([1, 2], size=-1),
        ArgumentValueError,
        ["DenseBincount", "size=-1"],
    ),
    ErrorCase(
        lambda: plugrad.dense_bincount([[[1]]], size=1),
        ShapeError,
        ["DenseBincount", "(1, 1, 1)", "matrix"],
    ),
    ErrorCase(
        lambda: plugrad.bincount([1], [True], size=1), DTypeError, ["Bincount (weights)", "bool"]
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()
