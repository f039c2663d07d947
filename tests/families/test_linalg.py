"""Products of matrices."""

import numpy as np
import pytest

import plugrad
from families.case import REAL_DTYPES, Case, ErrorCase, conformance_cases
from families.domains import uniform
from plugrad.errors import (
    BackendMismatch,
    DTypeError,
    ShapeError,
)
from plugrad.kernels import linalg


def np_matmul(a, b, *, transpose_a=False, transpose_b=False):
    a = a.swapaxes(-1, -2) if transpose_a else a
    return a @ (b.swapaxes(-1, -2) if transpose_b else b)


TWO_NUMBER_DOMAINS = [uniform(-2, 2), uniform(-2, 2)]
VECTOR_SHAPES = [
    ((5,), (5,)),
    ((0,), (0,)),
    ((1025,), (1025,)),
    ((5,), (5, 7)),
    ((3, 5), (5,)),
    ((2, 3, 5), (5,)),
    ((5,), (2, 5, 7)),
]
MATMUL_CASES = [
    *(case for case in conformance_cases("linalg") if case.kernel is linalg.matmul),
    *(
        Case(plugrad.matmul, np.matmul, TWO_NUMBER_DOMAINS, shapes, {}, REAL_DTYPES, is_sum=True)
        for shapes in VECTOR_SHAPES
    ),
]
TRANSPOSE_FLAGS = [
    {"transpose_a": a, "transpose_b": b} for a in (False, True) for b in (False, True)
]
CASES_EXCEPT_MATMUL = [
    case for case in conformance_cases("linalg") if case.kernel is not linalg.matmul
]


def case_id(case):
    return f"{case} {' '.join(map(str, case.shapes))}".replace(", ", ",")


@pytest.mark.rows("case", MATMUL_CASES, ids=case_id)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.rows("case", CASES_EXCEPT_MATMUL, ids=case_id)
def test_values_of_other_functions(case, backend, rng):
    case.check_values(rng)
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows("case", [c for c in CASES_EXCEPT_MATMUL if c.is_differentiable], ids=case_id)
def test_gradient_of_other_functions(case, backend, rng):
    case.check_gradient(rng, backend)


@pytest.mark.rows("case", MATMUL_CASES, ids=case_id)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows("case", MATMUL_CASES, ids=case_id)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


@pytest.mark.parametrize("flags", TRANSPOSE_FLAGS, ids=str)
@pytest.mark.parametrize("size", [(65, 130, 67), (257, 66, 263), (4, 300, 4), (130, 3, 1)], ids=str)
def test_large_matrices(size, flags, backend, rng):
    rows, inner, columns = size
    a = (inner, rows) if flags["transpose_a"] else (rows, inner)
    b = (columns, inner) if flags["transpose_b"] else (inner, columns)
    Case(linalg.matmul, np_matmul, TWO_NUMBER_DOMAINS, (a, b), flags, is_sum=True).check_values(rng)


@pytest.mark.parametrize(
    "shapes",
    [
        *([(3, 0), (0, 5)], [(0, 3), (3, 5)], [(3, 5), (5, 0)], [(0,), (0,)]),
        *([(0, 3, 5), (5, 2)], [(2, 3, 0), (0, 4)], [(2, 3, 5), (5, 0)]),
    ],
    ids=str,
)
def test_empty_matrices(shapes, backend, rng):
    Case(plugrad.matmul, np.matmul, TWO_NUMBER_DOMAINS, shapes).check_values(rng)
    a, b = (plugrad.zeros(shape, dtype="int32") for shape in shapes)
    assert plugrad.matmul(a, b).numpy().tolist() == np.matmul(a.numpy(), b.numpy()).tolist()


def test_einsum_of_half_precision_goes_on_beyond_2048(backend):
    if "float16" not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no float16")
    y = plugrad.einsum("ij->j", plugrad.ones((4096, 2), dtype="float16"))
    assert (y.tolist(), y.dtype) == ([4096, 4096], "float16")


def test_special_values(backend):
    a = np.array([[1, np.nan, 1], [1, np.inf, 1], [0, 1, -1]], "float32")
    b = np.array([[1, 2], [3, 0], [5, 6]], "float32")
    Case(plugrad.matmul, np.matmul, []).check_values_of_arrays([a, b])


@pytest.mark.rows("case", [c for c in MATMUL_CASES if c.is_differentiable], ids=case_id)
def test_gradient(case, backend, rng):
    case.check_gradient(rng, backend)


@pytest.mark.parametrize(
    "shapes",
    [
        ((1, 2, 3), (4, 3, 2)),
        ((2, 1, 2, 3), (1, 4, 3, 2)),
        ((2, 3), (4, 1, 3, 2)),
        ((3,), (4, 3, 2)),
    ],
    ids=str,
)
def test_gradient_under_broadcasting(shapes, backend, rng):
    Case(plugrad.matmul, np.matmul, TWO_NUMBER_DOMAINS, shapes).check_gradient(rng, backend)


def test_gradient_of_empty_matrices(backend):
    a, b = plugrad.zeros((3, 0)), plugrad.zeros((0, 5))
    gradients = plugrad.grad(plugrad.matmul, argnums=(0, 1))(a, b, dy=plugrad.ones((3, 5)))
    assert [g.shape for g in gradients] == [(3, 0), (0, 5)]


def ones(*shape):
    return plugrad.ones(shape)


ERROR_CASES = [
    ErrorCase(
        lambda: plugrad.matmul(ones(2, 3), ones(2, 3)), ShapeError, ["(2, 3)", "3 columns", "2"]
    ),
    ErrorCase(lambda: plugrad.matmul(2.0, ones(2, 3)), ShapeError, ["matmul", "()", "multiply"]),
    ErrorCase(
        lambda: plugrad.matmul(ones(2, 3, 4), ones(3, 4, 5)),
        ShapeError,
        ["do not broadcast", "(2,)", "(3,)"],
    ),
    ErrorCase(
        lambda: linalg.matmul(ones(2, 3), ones(2, 3), transpose_a=True, transpose_b=True),
        ShapeError,
        ["transpose_a=True", "2 columns", "3 rows"],
    ),
    ErrorCase(lambda: linalg.matmul(ones(3), ones(3, 2)), ShapeError, ["(3,)", "two axes"]),
    ErrorCase(
        lambda: plugrad.matmul(ones(2, 2).astype("bool"), ones(2, 2).astype("bool")),
        DTypeError,
        ["matmul", "bool", "astype"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()


def test_operands_on_two_backends(backend):
    if backend == "cpu":
        pytest.skip("a second backend besides the cpu is needed")
    with pytest.raises(BackendMismatch, match=rf"{backend}:0 and cpu:0.*x\.to"):
        plugrad.matmul(ones(2, 2), plugrad.ones((2, 2), device="cpu"))
