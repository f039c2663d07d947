"""Predicted classes, compared with the right ones."""

import numpy as np
import pytest

import plugrad
from families.case import Case, ErrorCase
from families.domains import distinct, integers, repeated_integers
from plugrad.errors import ArgumentError, ArgumentValueError, DTypeError, ShapeError


def np_confusion_matrix(labels, predictions, *, num_classes):
    matrix = np.zeros((num_classes, num_classes), int)
    for row, column in zip(labels, predictions, strict=True):
        if 0 <= row < num_classes and 0 <= column < num_classes:
            matrix[row, column] += 1
    return matrix


def np_in_top_k(predictions, targets, *, k=1):
    order = np.argsort(-predictions, axis=-1, kind="stable")[..., :k]
    return np.any(order == targets[..., None], axis=-1)


CASES = [
    Case(
        *(plugrad.confusion_matrix, np_confusion_matrix, [integers(-1, 4)] * 2, [(length,)] * 2),
        {"num_classes": classes},
        result="int32",
        is_differentiable=False,
    )
    for length, classes in [(30, 4), (30, 3), (30, 6), (5, 1), (0, 2)]
] + [
    Case(
        *(plugrad.in_top_k, np_in_top_k, [domain, integers(-1, 7)], [(*shape, 7), shape], {"k": k}),
        result="bool",
        is_differentiable=False,
    )
    for domain in (distinct(), repeated_integers(0, 2))
    for shape, k in [((20,), 1), ((4, 5), 3), ((20,), 7), ((0,), 2)]
]


@pytest.mark.rows("case", CASES, ids=str)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.rows("case", [CASES[0], CASES[6]], ids=str)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


def test_among_equal_predictions_the_first_class_ranks_highest(backend):
    x = plugrad.asarray([[1.0, 2.0, 2.0, 1.0]] * 4)
    assert plugrad.in_top_k(x, [0, 1, 2, 3]).tolist() == [False, True, False, False]
    assert plugrad.in_top_k(x, [0, 1, 2, 3], 3).tolist() == [True, True, True, False]


def test_special_predictions(backend):
    x = plugrad.asarray([[np.nan, 1.0, 0.0], [np.inf, 1.0, np.inf], [-np.inf, -np.inf, 1.0]])
    assert plugrad.in_top_k(x, [0, 2, 0], 2).tolist() == [False, True, True]
    assert plugrad.in_top_k(x, [1, 0, 2], 1).tolist() == [False, True, True]


def test_whole_predictions_and_other_indices(backend):
    if "uint8" not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no uint8")
    assert plugrad.in_top_k([[3, 1], [1, 3]], np.array([0, 0], "uint8")).tolist() == [True, False]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint32", "uint64"])
def test_classes_of_any_integer_dtype(dtype, backend):
    if dtype not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no {dtype}")
    labels = np.array([100, 3, 3], dtype)
    matrix = plugrad.confusion_matrix(labels, np.array([120, 0, 3], dtype), 300).numpy()
    assert np.argwhere(matrix).tolist() == [[3, 0], [3, 3], [100, 120]]
    predictions = np.eye(300, dtype="float32")[[100, 3, 4]]
    assert plugrad.in_top_k(predictions, labels).tolist() == [True, True, False]


ERROR_CASES = [
    ErrorCase(
        lambda: plugrad.confusion_matrix([0], [0], 2.5),
        ArgumentError,
        ["confusion_matrix", "num_classes=2.5", "integer"],
    ),
    ErrorCase(lambda: plugrad.confusion_matrix([0], [0], 0), ArgumentValueError, ["num_classes=0"]),
    ErrorCase(
        lambda: plugrad.confusion_matrix([0.0], [0], 1), DTypeError, ["labels", "float32", "astype"]
    ),
    ErrorCase(
        lambda: plugrad.confusion_matrix([0], [0.0], 1), DTypeError, ["predictions", "float32"]
    ),
    ErrorCase(
        lambda: plugrad.confusion_matrix([0, 1], [0], 1), ShapeError, ["(2,)", "(1,)", "length"]
    ),
    ErrorCase(lambda: plugrad.confusion_matrix(0, 0, 1), ShapeError, ["()", "vectors"]),
    ErrorCase(
        lambda: plugrad.in_top_k([1.0], 0), ShapeError, ["in_top_k", "(1,)", "2 or more axes"]
    ),
    ErrorCase(lambda: plugrad.in_top_k([[1.0]], [0, 1]), ShapeError, ["(1, 1)", "(2,)"]),
    ErrorCase(lambda: plugrad.in_top_k([[1.0]], [0.0]), DTypeError, ["targets", "float32"]),
    ErrorCase(
        lambda: plugrad.in_top_k([[1.0]], [0], 0), ArgumentValueError, ["k=0", "between 1 and 1"]
    ),
    ErrorCase(
        lambda: plugrad.in_top_k([[1.0]], [0], 2), ArgumentValueError, ["k=2", "between 1 and 1"]
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()
