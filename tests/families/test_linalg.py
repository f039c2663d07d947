"""Products of matrices."""

import numpy as np
import pytest

import plugrad
from families.case import EVERYTHING, REALS, VIEWS, Case, Refusal
from families.domains import these, uniform
from plugrad.errors import (
    BackendMismatch,
    DTypeError,
    ShapeError,
)
from plugrad.kernels import linalg


def np_matmul(a, b, *, transpose_a=False, transpose_b=False):
    a = a.swapaxes(-1, -2) if transpose_a else a
    return a @ (b.swapaxes(-1, -2) if transpose_b else b)


numbers = [uniform(-2, 2), uniform(-2, 2)]
SHAPES = [
    ((3, 5), (5, 7)),
    ((1, 1), (1, 1)),
    ((1, 5), (5, 1)),
    ((3, 1), (1, 7)),
    ((5,), (5,)),
    ((5,), (5, 7)),
    ((3, 5), (5,)),
    ((2, 3, 5), (2, 5, 7)),
    ((2, 3, 5), (5, 7)),
    ((3, 5), (2, 5, 7)),
    ((2, 1, 3, 5), (4, 5, 7)),
    ((2, 3, 5), (5,)),
    ((5,), (2, 5, 7)),
    ((9, 17), (17, 33)),
]
PRODUCTS = [
    Case(plugrad.matmul, np.matmul, numbers, shapes, {}, REALS, is_sum=True) for shapes in SHAPES
]
FLAGS = [{"transpose_a": a, "transpose_b": b} for a in (False, True) for b in (False, True)]
FLAGGED = [
    Case(linalg.matmul, np_matmul, numbers, (left, right), flags, REALS, is_sum=True)
    for flags in FLAGS
    for left, right in [
        ((5, 3) if flags["transpose_a"] else (3, 5), (7, 5) if flags["transpose_b"] else (5, 7)),
        (
            (2, 1, 5, 3) if flags["transpose_a"] else (2, 1, 3, 5),
            (4, 7, 5) if flags["transpose_b"] else (4, 5, 7),
        ),
    ]
]
CASES = [*PRODUCTS, *FLAGGED]


def np_einsum(*operands, equation):
    return np.einsum(equation, *operands)


def np_einsum_op(*operands, equation):
    return np.asarray(np.einsum(equation, *operands))


def einsum(*operands, equation):
    return plugrad.einsum(equation, *operands)


def np_band(x, lower, upper):
    """Return the matrices with zeros outside the band, element by element."""
    y = np.zeros_like(x)
    for i in range(x.shape[-2]):
        for j in range(x.shape[-1]):
            if (lower < 0 or i - j <= lower) and (upper < 0 or j - i <= upper):
                y[..., i, j] = x[..., i, j]
    return y


def np_diag(x):
    y = np.zeros(x.shape * 2, x.dtype)
    for place in np.ndindex(x.shape):
        y[place * 2] = x[place]
    return y


def np_diag_part(x):
    shape = x.shape[: x.ndim // 2]
    y = np.zeros(shape, x.dtype)
    for place in np.ndindex(shape):
        y[place] = x[place * 2]
    return y


EQUATIONS = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,kj->ik", (3, 4), (5, 4)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("ij->ji", (3, 4)),
    ("ij->", (3, 4)),
    ("ij->j", (3, 4)),
    ("i,j->ij", (3,), (4,)),
    ("i,i->", (5,), (5,)),
    ("ij,kl->il", (3, 4), (2, 5)),  # a summed letter of its own in both operands
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
    ("ij,ij->ij", (3, 4), (3, 4)),
    ("i,->i", (3,), ()),
    ("ab,bc->ca", (0, 3), (3, 2)),
]
EINSUMS = [
    Case(
        linalg_kernel,
        reference,
        [uniform(-2, 2)] * len(shapes),
        shapes,
        {"equation": equation},
        ("float32", "float64", "int32"),
        is_sum=True,
        name=f"{where} {equation} {shapes}",
    )
    for where, linalg_kernel, reference in [
        ("kernel", linalg.einsum, np_einsum),
        ("op", einsum, np_einsum_op),
    ]
    for equation, *shapes in EQUATIONS
]
BANDS = [
    Case(
        linalg.band_part,
        np_band,
        [uniform(-2, 2), these(lower), these(upper)],
        [shape, (), ()],
        dtypes=EVERYTHING,
        is_differentiable=False,
        name=f"band {lower} {upper} of {shape}",
    )
    for shape in [(4, 5), (5, 3), (2, 3, 3), (0, 3), (1, 1)]
    for lower, upper in [(0, 0), (1, 2), (-1, 0), (0, -1), (-1, -1), (5, 1)]
]
BAND_GRADIENTS = [
    Case(
        lambda x, lower, upper: plugrad.linalg.band_part(x, lower, upper),
        np_band,
        [uniform(-2, 2)],
        [shape],
        {"lower": lower, "upper": upper},
        name=f"band_part {lower} {upper} of {shape}",
    )
    for shape, lower, upper in [((4, 5), 1, 0), ((2, 3, 3), -1, 1), ((5, 2), 2, -1)]
]
for case in BANDS:  # the counts are whole numbers whatever the matrix holds
    for domain in case.domains[1:]:
        object.__setattr__(domain, "dtype", "int32")
DIAGONALS = [
    Case(
        op,
        reference,
        [uniform(-2, 2)],
        [shape],
        dtypes=EVERYTHING,
        name=f"{name} of {shape}",
    )
    for name, op, reference, shapes in [
        ("diag", plugrad.diag, np_diag, [(3,), (2, 3), (), (0,)]),
        ("diag_part", linalg.diag_part, np_diag_part, [(3, 3), (1, 1), (2, 3, 2, 3)]),
    ]
    for shape in shapes
]
OTHERS = [*EINSUMS, *BANDS, *BAND_GRADIENTS, *DIAGONALS]


def label(case):
    return f"{case} {case.shapes[0]} {case.shapes[1]}"


@pytest.mark.parametrize("case", CASES, ids=label)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.parametrize("case", OTHERS, ids=str)
def test_values_of_other_functions(case, backend, rng):
    case.check_values(rng)
    case.check_values_of_other_dtypes(rng)


@pytest.mark.parametrize("case", [c for c in OTHERS if c.is_differentiable], ids=str)
def test_gradient_of_other_functions(case, backend, rng):
    if 0 not in case.shapes[0]:
        case.check_gradient(rng, backend)


@pytest.mark.parametrize("case", CASES[:8] + FLAGGED, ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.parametrize("layout", VIEWS)
@pytest.mark.parametrize("case", CASES, ids=label)
def test_values_of_views(case, layout, backend, rng):
    case.check_values(rng, layout=layout)


@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize("size", [(65, 130, 67), (257, 66, 263), (4, 300, 4), (130, 3, 1)], ids=str)
def test_large_matrices(size, flags, backend, rng):
    rows, inner, columns = size
    a = (inner, rows) if flags["transpose_a"] else (rows, inner)
    b = (columns, inner) if flags["transpose_b"] else (inner, columns)
    Case(linalg.matmul, np_matmul, numbers, (a, b), flags, is_sum=True).check_values(rng)


@pytest.mark.parametrize(
    "shapes",
    [((3, 0), (0, 5)), ((0, 3), (3, 5)), ((3, 5), (5, 0)), ((0, 3, 5), (5, 2)), ((0,), (0,))],
    ids=str,
)
def test_empty_matrices(shapes, backend, rng):
    Case(plugrad.matmul, np.matmul, numbers, shapes).check_values(rng)


def test_einsum_of_half_precision_goes_on_beyond_2048(backend):
    if "float16" not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no float16")
    y = plugrad.einsum("ij->j", plugrad.ones((4096, 2), dtype="float16"))
    assert (y.tolist(), y.dtype) == ([4096, 4096], "float16")


def test_special_values(backend):
    a = np.array([[1, np.nan, 1], [1, np.inf, 1], [0, 1, -1]], "float32")
    b = np.array([[1, 2], [3, 0], [5, 6]], "float32")
    Case(plugrad.matmul, np.matmul, []).check_values_of([a, b])


@pytest.mark.parametrize("case", [*PRODUCTS[:-1], *FLAGGED], ids=label)
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
    Case(plugrad.matmul, np.matmul, numbers, shapes).check_gradient(rng, backend)


def test_gradient_of_empty_matrices(backend):
    a, b = plugrad.zeros((3, 0)), plugrad.zeros((0, 5))
    gradients = plugrad.grad(plugrad.matmul, argnums=(0, 1))(a, b)
    assert [g.shape for g in gradients] == [(3, 0), (0, 5)]


def ones(*shape):
    return plugrad.ones(shape)


REFUSALS = [
    Refusal(
        lambda: plugrad.matmul(ones(2, 3), ones(2, 3)), ShapeError, ["(2, 3)", "3 columns", "2"]
    ),
    Refusal(lambda: plugrad.matmul(2.0, ones(2, 3)), ShapeError, ["matmul", "()", "multiply"]),
    Refusal(
        lambda: plugrad.matmul(ones(2, 3, 4), ones(3, 4, 5)),
        ShapeError,
        ["do not broadcast", "(2,)", "(3,)"],
    ),
    Refusal(
        lambda: linalg.matmul(ones(2, 3), ones(2, 3), transpose_a=True, transpose_b=True),
        ShapeError,
        ["transpose_a=True", "2 columns", "3 rows"],
    ),
    Refusal(lambda: linalg.matmul(ones(3), ones(3, 2)), ShapeError, ["(3,)", "two axes"]),
    Refusal(
        lambda: plugrad.matmul(ones(2, 2).astype("bool"), ones(2, 2).astype("bool")),
        DTypeError,
        ["matmul", "bool", "astype"],
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_bad_input(refusal, backend):
    refusal.check()


def test_operands_on_two_backends(backend):
    if backend == "cpu":
        pytest.skip("a second backend besides the cpu is needed")
    with pytest.raises(BackendMismatch, match=rf"{backend}:0 and cpu:0.*x\.to"):
        plugrad.matmul(ones(2, 2), plugrad.ones((2, 2), device="cpu"))
