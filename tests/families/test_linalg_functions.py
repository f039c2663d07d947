"""Functions of linear algebra that are made of products and movements: sums, parts, norms."""

from functools import partial

import numpy as np
import pytest

import plugrad
from families.case import REAL_AND_BOOL_DTYPES, Case, ErrorCase
from families.domains import uniform
from families.test_linalg import TWO_NUMBER_DOMAINS
from plugrad.errors import ArgumentValueError, AxisError, DTypeError, ShapeError
from plugrad.testing.tables.linalg import band_part

EINSUM_CASES = [
    Case(
        lambda *operands, equation: plugrad.einsum(equation, *operands),
        lambda *operands, equation: np.einsum(equation, *operands),
        [uniform(-2, 2)] * len(shapes),
        shapes,
        {"equation": equation},
        is_sum=True,
        name=f"{equation} {shapes}",
    )
    for equation, *shapes in [
        ("ij,jk", (3, 4), (4, 5)),
        ("ba", (3, 4)),
        ("ii", (3, 3)),
        ("ii->i", (3, 3)),
        ("iij->j", (3, 3, 2)),
        ("iii->i", (2, 2, 2)),
        ("ij,ii->j", (3, 4), (3, 3)),
        ("...ij,...jk->...ik", (2, 3, 4), (4, 5)),
        ("...ij,...jk", (2, 1, 3, 4), (5, 4, 2)),
        ("i...->...", (3, 4, 5)),
        ("...,...", (3, 1), (1, 4)),
        ("...->...", ()),
        (" i j , j k -> i k ", (3, 4), (4, 5)),
    ]
]
DIAGONAL_OFFSETS = [-4, -2, -1, 0, 1, 3]
TRIANGLE_AND_DIAGONAL_CASES = [
    Case(op, reference, [uniform(-2, 2)], [shape], {name: k}, REAL_AND_BOOL_DTYPES)
    for op, reference, name in [
        (plugrad.tril, np.tril, "k"),
        (plugrad.triu, np.triu, "k"),
        (plugrad.linalg.diagonal, lambda x, offset: np.diagonal(x, offset, -2, -1), "offset"),
    ]
    for shape in [(4, 5), (5, 3), (2, 3, 3), (0, 3)]
    for k in DIAGONAL_OFFSETS
]
TRACE_CASES = [
    Case(
        plugrad.linalg.trace,
        lambda x, offset: np.trace(x, offset, -2, -1),
        *([uniform(-2, 2)], [shape], {"offset": k}),
        ("float32", "float64", "int32"),
        is_sum=True,
    )
    for shape in [(4, 5), (2, 3, 3)]
    for k in (-1, 0, 2)
]
VECTOR_PRODUCT_CASES = [
    Case(
        op,
        reference,
        TWO_NUMBER_DOMAINS,
        shapes,
        attrs,
        is_sum=True,
        name=f"{name} {shapes} {attrs}",
    )
    for name, op, reference, shapes, attrs in [
        ("dot", plugrad.dot, np.dot, ((3,), (3,)), {}),
        ("dot", plugrad.dot, np.dot, ((2, 3), (3,)), {}),
        ("dot", plugrad.dot, np.dot, ((2, 3), (3, 4)), {}),
        ("outer", plugrad.linalg.outer, np.outer, ((3,), (4,)), {}),
        ("outer", plugrad.linalg.outer, np.outer, ((0,), (4,)), {}),
        ("vecdot", plugrad.vecdot, np.linalg.vecdot, ((2, 3), (3,)), {}),
        ("vecdot", plugrad.vecdot, np.linalg.vecdot, ((4, 2, 3), (4, 1, 3)), {"axis": -1}),
        ("vecdot", plugrad.vecdot, np.linalg.vecdot, ((3, 2), (3, 2)), {"axis": 0}),
        ("cross", plugrad.linalg.cross, np.linalg.cross, ((3,), (3,)), {}),
        ("cross", plugrad.linalg.cross, np.linalg.cross, ((2, 3), (1, 3)), {}),
        ("cross", plugrad.linalg.cross, np.linalg.cross, ((3, 2), (3, 2)), {"axis": 0}),
        ("tensordot", plugrad.tensordot, np.tensordot, ((2, 3, 4), (3, 4, 5)), {"axes": 2}),
        ("tensordot", plugrad.tensordot, np.tensordot, ((2, 3), (4, 5)), {"axes": 0}),
        (
            *("tensordot", plugrad.tensordot, np.tensordot, ((2, 3, 4), (4, 5, 2))),
            {"axes": ((0, 2), (2, 0))},
        ),
    ]
]
MATRIX_POWER_CASES = [
    Case(
        lambda x, n: plugrad.linalg.matrix_power(x, n),
        lambda x, n: np.linalg.matrix_power(x, n),
        [uniform(-1, 1)],
        [shape],
        {"n": n},
        is_sum=True,
        name=f"power {n} of {shape}",
    )
    for shape in [(3, 3), (2, 2, 2)]
    for n in (0, 1, 2, 3, 5, 8)
]
VECTOR_NORM_CASES = [
    Case(
        plugrad.linalg.vector_norm,
        lambda x, ord, axis, keepdims: np.linalg.vector_norm(
            x, ord=ord, axis=axis, keepdims=keepdims
        ),
        [uniform(-3, 3, avoid=(0,))],
        [(3, 4)],
        {"ord": ord, "axis": axis, "keepdims": keepdims},
    )
    for ord in (2, 1, 3, 0.5, np.inf, -np.inf, 0, -1)
    for axis, keepdims in [(None, False), (1, True), ((0, 1), False)]
]
MATRIX_NORM_CASES = [
    Case(
        plugrad.linalg.matrix_norm,
        lambda x, ord, keepdims: np.linalg.matrix_norm(x, ord=ord, keepdims=keepdims),
        [uniform(-3, 3, avoid=(0,))],
        [shape],
        {"ord": ord, "keepdims": keepdims},
        is_sum=True,
    )
    for ord in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
    for shape, keepdims in [((3, 4), False), ((2, 3, 3), True)]
]
TF_NORM_CASES = [
    Case(
        plugrad.linalg.norm,
        lambda x, ord, axis, keepdims=False: np.linalg.norm(
            x.ravel() if axis is None else x,
            None if ord == "euclidean" else ord,
            axis,
            keepdims,
        ),
        [uniform(-3, 3, avoid=(0,))],
        [(3, 4, 5)],
        attrs,
        is_sum=True,
    )
    for attrs in [
        {"ord": "euclidean", "axis": None},
        {"ord": 1, "axis": -2, "keepdims": True},
        {"ord": "euclidean", "axis": (0, 2)},
        {"ord": 1, "axis": (2, 0)},
        {"ord": 1, "axis": (-1, -3), "keepdims": True},
        {"ord": np.inf, "axis": (0, -1)},
        {"ord": "fro", "axis": (1, 2)},
    ]
]
CASES = [
    *EINSUM_CASES,
    *TRIANGLE_AND_DIAGONAL_CASES,
    *TRACE_CASES,
    *VECTOR_PRODUCT_CASES,
    *MATRIX_POWER_CASES,
    *VECTOR_NORM_CASES,
    *MATRIX_NORM_CASES,
    *TF_NORM_CASES,
]


@pytest.mark.rows("case", CASES, ids=str)
def test_values(case, backend, rng):
    case.check_values(rng)
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows("case", CASES, ids=str)
def test_gradient(case, backend, rng):
    if 0 not in case.shapes[0]:
        case.check_gradient(rng, backend)


def test_band_part_takes_numbers_and_tensors(rng):
    x = rng.normal(size=(4, 4))
    for lower, upper in [(1, 0), (plugrad.asarray(1), plugrad.asarray(0)), (np.int64(1), 0)]:
        actual = plugrad.linalg.band_part(x, lower, upper)
        np.testing.assert_array_equal(actual.numpy(), band_part(x, 1, 0))


def test_matrix_transpose_and_its_attribute(rng, backend):
    x = plugrad.asarray(rng.normal(size=(2, 3, 4)).astype("float32"))
    assert plugrad.matrix_transpose(x).shape == x.mT.shape == (2, 4, 3)
    np.testing.assert_array_equal(x.mT.numpy(), x.numpy().swapaxes(1, 2))


def test_norm_of_a_zero_vector_has_gradient_zero(backend):
    for norm in (plugrad.linalg.vector_norm, plugrad.linalg.norm):
        assert plugrad.grad(norm)(plugrad.zeros(3)).tolist() == [0.0, 0.0, 0.0]
        assert norm(plugrad.zeros(3)).item() == 0.0


@pytest.mark.parametrize("ord", [0.5, 1, 1.5, 2, 3, np.inf, -np.inf, -1])
def test_norm_of_a_zero_vector_has_gradient_zero_in_every_order(ord, backend):
    norm = partial(plugrad.linalg.vector_norm, axis=1, ord=ord)
    x = plugrad.asarray([[0.0, 0.0], [3.0, 4.0]])
    value, gradient = plugrad.value_and_grad(norm)(x, dy=[1.0, 1.0])
    expected = np.linalg.norm([3.0, 4.0], ord)
    np.testing.assert_allclose(value.numpy(), [0.0, expected], rtol=1e-5)
    assert gradient.tolist()[0] == [0.0, 0.0]
    np.testing.assert_allclose(np.sum(gradient.numpy()[1] * [3.0, 4.0]), expected, rtol=1e-5)


def test_norm_of_no_elements(backend):
    for ord in (0.5, 1, 2, 3):
        assert plugrad.linalg.vector_norm(plugrad.zeros((2, 0)), axis=1, ord=ord).tolist() == [0, 0]


def test_vecdot_keeps_the_dtype():
    a = plugrad.asarray([100, 100], dtype="int8")
    assert plugrad.vecdot(a, a).dtype == "int8"
    np.testing.assert_array_equal(plugrad.vecdot(a, a).numpy(), np.vecdot(a.numpy(), a.numpy()))


def test_triangles_of_strings_have_empty_strings_elsewhere(backend):
    x = plugrad.asarray([["a", "b"], ["c", "d"]])
    assert plugrad.tril(x).tolist() == [["a", ""], ["c", "d"]]
    assert plugrad.triu(x).tolist() == [["a", "b"], ["", "d"]]


def test_vecdot_conjugates_the_first_operand():
    a, b = np.array([1 + 2j, 3j]), np.array([2 - 1j, 1 + 1j])
    np.testing.assert_allclose(plugrad.vecdot(a, b).numpy(), np.vecdot(a, b))
    np.testing.assert_allclose(plugrad.linalg.vector_norm(a).numpy(), np.linalg.norm(a))


MATRIX = plugrad.asarray([[1.0, 2.0], [3.0, 4.0]], device="cpu")
VECTOR = plugrad.asarray([1.0, 2.0, 3.0], device="cpu")
ERROR_CASES = [
    ErrorCase(
        lambda: plugrad.einsum("ij,jk->ik", MATRIX),
        ArgumentValueError,
        ["einsum", "2 tensors", "for 1"],
    ),
    ErrorCase(
        lambda: plugrad.einsum("ij->ik", MATRIX),
        ArgumentValueError,
        ["'ij->ik'", "after the arrow"],
    ),
    ErrorCase(lambda: plugrad.einsum("ij->ii", MATRIX), ArgumentValueError, ["only once after it"]),
    ErrorCase(lambda: plugrad.einsum("i1->i", MATRIX), ArgumentValueError, ["'i1->i'", "letters"]),
    ErrorCase(lambda: plugrad.einsum("ij->i->j", MATRIX), ArgumentValueError, ["one '->'"]),
    ErrorCase(lambda: plugrad.einsum("ij->...", MATRIX), ArgumentValueError, ["after the arrow"]),
    ErrorCase(lambda: plugrad.einsum("i->i", MATRIX), ShapeError, ["'i'", "1 axes", "(2, 2)"]),
    ErrorCase(lambda: plugrad.einsum("ij,j->i", MATRIX, VECTOR), ShapeError, ["'j'", "2 and 3"]),
    ErrorCase(
        lambda: plugrad.einsum("ii", plugrad.ones((2, 3))), ShapeError, ["'i'", "sizes 2 and 3"]
    ),
    ErrorCase(
        lambda: plugrad.dot(plugrad.ones((1, 2, 2)), MATRIX), ShapeError, ["dot", "(1, 2, 2)"]
    ),
    ErrorCase(
        lambda: plugrad.dot(VECTOR, MATRIX),
        ShapeError,
        ["matmul", "(3,)", "(2, 2)", "as long as the last"],
    ),
    ErrorCase(lambda: plugrad.linalg.outer(MATRIX, VECTOR), ShapeError, ["outer", "(2, 2)"]),
    ErrorCase(lambda: plugrad.vecdot(VECTOR, MATRIX), ShapeError, ["vecdot", "3 and 2"]),
    ErrorCase(
        lambda: plugrad.tensordot(MATRIX, VECTOR, axes=1),
        ShapeError,
        ["tensordot", "(2, 2)", "(3,)"],
    ),
    ErrorCase(
        lambda: plugrad.tensordot(MATRIX, VECTOR, axes=2),
        ArgumentValueError,
        ["axes=2", "ranks 2 and 1"],
    ),
    ErrorCase(lambda: plugrad.linalg.cross(MATRIX, MATRIX), ShapeError, ["cross", "3 elements"]),
    ErrorCase(lambda: plugrad.matrix_transpose(VECTOR), ShapeError, ["matrix_transpose", "(3,)"]),
    ErrorCase(
        lambda: plugrad.linalg.matrix_power(plugrad.ones((2, 3)), 2),
        ShapeError,
        ["(2, 3)", "square"],
    ),
    ErrorCase(lambda: plugrad.linalg.diagonal(VECTOR), ShapeError, ["diagonal", "(3,)"]),
    ErrorCase(lambda: plugrad.tril(VECTOR), ShapeError, ["tril", "(3,)"]),
    ErrorCase(lambda: plugrad.triu(VECTOR), ShapeError, ["triu", "(3,)"]),
    ErrorCase(
        lambda: plugrad.linalg.band_part(MATRIX, 3, 0),
        ArgumentValueError,
        ["num_lower=3", "than 2"],
    ),
    ErrorCase(
        lambda: plugrad.linalg.band_part(MATRIX, 1.5, 0), DTypeError, ["num_lower", "float32"]
    ),
    ErrorCase(lambda: plugrad.linalg.band_part(VECTOR, 0, 0), ShapeError, ["band_part", "(3,)"]),
    ErrorCase(
        lambda: plugrad.linalg.matrix_norm(MATRIX, ord=3),
        ArgumentValueError,
        ["ord=3", "'fro'", "'nuc'"],
    ),
    ErrorCase(lambda: plugrad.linalg.matrix_norm(VECTOR), ShapeError, ["matrix_norm", "(3,)"]),
    ErrorCase(
        lambda: plugrad.linalg.norm(MATRIX, ord="fro"), ArgumentValueError, ["'fro'", "two axes"]
    ),
    ErrorCase(lambda: plugrad.linalg.norm(MATRIX, axis=(1, 1)), AxisError, ["(1, 1)", "twice"]),
    ErrorCase(
        lambda: plugrad.linalg.norm(plugrad.ones((1, 1, 1)), axis=(0, 1, 2)),
        AxisError,
        ["(0, 1, 2)", "two axes"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case):
    error_case.check()
