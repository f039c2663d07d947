"""Non-maximum suppression of overlapping boxes."""

import numpy as np
import pytest

import plugrad
from families.case import Case, ErrorCase
from families.domains import Domain, uniform
from plugrad.errors import ArgumentValueError, DTypeError, ShapeError
from plugrad.kernels import detection


def intersection_over_union(a, b):
    """Return the area of the intersection of two boxes divided by that of their union."""
    (top, bottom), (left, right) = sorted(a[::2]), sorted(a[1::2])
    (top_b, bottom_b), (left_b, right_b) = sorted(b[::2]), sorted(b[1::2])
    areas = (bottom - top) * (right - left), (bottom_b - top_b) * (right_b - left_b)
    if min(areas) <= 0:
        return 0.0
    height = max(min(bottom, bottom_b) - max(top, top_b), 0)
    width = max(min(right, right_b) - max(left, left_b), 0)
    return height * width / (sum(areas) - height * width)


def reference_non_max_suppression(
    boxes, scores, max_output_size, iou_threshold=0.5, score_threshold=-np.inf, sigma=0.0
):
    """Return the indices and scores of the boxes that non-maximum suppression selects, one after the other."""
    scores = dict(enumerate(scores.tolist()))
    chosen, chosen_scores = [], []
    while len(chosen) < max_output_size:
        scores = {i: s for i, s in scores.items() if s > score_threshold}
        if not scores:
            break
        best = max(scores, key=lambda i: (scores[i], -i))
        chosen.append(best)
        chosen_scores.append(scores.pop(best))
        overlaps = {i: intersection_over_union(boxes[best], boxes[i]) for i in scores}
        scores = {
            i: s * np.exp(-(overlaps[i] ** 2) / (2 * sigma)) if sigma else s
            for i, s in scores.items()
            if overlaps[i] < iou_threshold
        }
    return np.array(chosen, int), np.array(chosen_scores)


def selected_indices(boxes, scores, **attrs):
    return reference_non_max_suppression(boxes, scores, **attrs)[0]


def padded_selected_indices(boxes, scores, *, pad_to_max_output_size=False, **attrs):
    chosen = selected_indices(boxes, scores, **attrs)
    room = attrs["max_output_size"] - len(chosen) if pad_to_max_output_size else 0
    return np.pad(chosen, (0, room))


def selected_count(boxes, scores, *, pad_to_max_output_size=False, **attrs):
    return np.array(len(selected_indices(boxes, scores, **attrs)))


def soft_nms_reference(index):
    def reference(boxes, scores, *, soft_nms_sigma=0.0, **attrs):
        return reference_non_max_suppression(boxes, scores, sigma=soft_nms_sigma, **attrs)[index]

    return reference


def with_result_part(op, name):
    """Return an op that returns one part of another op's result."""

    def named(boxes, scores, **attrs):
        return getattr(op(boxes, scores, **attrs), name)

    named.__name__ = name
    return named


def _random_boxes(rng, shape, dtype):
    """Draw boxes on a grid with their corners in any order; some have no area."""
    return (rng.integers(0, 7, shape) / 4).astype(dtype)


BOXES = Domain(_random_boxes)
SCORES = uniform(0, 1)
NMS_ATTRIBUTES = [
    {"max_output_size": 5},
    {"max_output_size": 40, "iou_threshold": 0.2},
    {"max_output_size": 40, "iou_threshold": 1.0, "score_threshold": 0.4},
    {"max_output_size": 4, "iou_threshold": 0.0},
    {"max_output_size": 0},
    {"max_output_size": 3, "score_threshold": 2.0},
]
NMS_CASES = [
    Case(
        *(
            plugrad.image.non_max_suppression,
            selected_indices,
            [BOXES, SCORES],
            [(30, 4), (30,)],
            attrs,
        ),
        result="int32",
    )
    for attrs in NMS_ATTRIBUTES
]
PADDED_NMS_CASES = [
    Case(
        *(
            with_result_part(plugrad.image.non_max_suppression_padded, name),
            reference,
            [BOXES, SCORES],
        ),
        *([(30, 4), (30,)], {**attrs, "pad_to_max_output_size": is_padded}),
        result="int32",
    )
    for name, reference in [
        ("selected_indices", padded_selected_indices),
        ("valid_outputs", selected_count),
    ]
    for attrs in NMS_ATTRIBUTES
    for is_padded in (False, True)
]
SOFT_NMS_CASES = [
    Case(
        *(
            with_result_part(plugrad.image.non_max_suppression_with_score, name),
            soft_nms_reference(index),
            [BOXES, SCORES],
        ),
        *([(30, 4), (30,)], {**attrs, "soft_nms_sigma": sigma}),
        result=result,
    )
    for index, (name, result) in enumerate([("selected_indices", "int32"), ("selected_scores", "")])
    for attrs in NMS_ATTRIBUTES
    for sigma in (0.0, 0.5, 1.0)
]
CASES = [*NMS_CASES, *PADDED_NMS_CASES, *SOFT_NMS_CASES]


@pytest.mark.rows("case", CASES, ids=str)
def test_values(case, backend, rng):
    case.check_values(rng)
    case.check_values_of_other_dtypes(rng)
    case.with_shapes((1, 4), (1,)).check_values(rng)
    case.with_shapes((0, 4), (0,)).check_values(rng)


@pytest.mark.rows("case", [NMS_CASES[1], SOFT_NMS_CASES[4]], ids=str)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


BOX = [0.0, 0.0, 1.0, 1.0]


def test_equal_scores_in_order(backend):
    apart = [[i, i, i + 1.0, i + 1.0] for i in range(4)]
    assert plugrad.image.non_max_suppression(apart, [0.5, 0.9, 0.9, 0.5], 4).tolist() == [
        1,
        2,
        0,
        3,
    ]
    assert plugrad.image.non_max_suppression([BOX] * 3, [0.9] * 3, 3).tolist() == [0]


def test_nan_does_not_take_part(backend):
    boxes = [[i, i, i + 1.0, i + 1.0] for i in range(3)]
    scores = [np.nan, 0.5, np.inf]
    assert plugrad.image.non_max_suppression(boxes, scores, 3).tolist() == [2, 1]


def test_a_box_without_area_overlaps_nothing(backend):
    boxes = [[0, 0, 1, 0.0], [0, 0, 1, 0.0], [0.5, 0, 0.5, 1]]
    assert plugrad.image.non_max_suppression(boxes, [0.5, 0.6, 0.7], 3).tolist() == [2, 1, 0]


def test_whole_numbers_are_taken_as_floats(backend):
    boxes = plugrad.asarray([[0, 0, 2, 2], [0, 0, 2, 2], [4, 4, 5, 5]])
    assert plugrad.image.non_max_suppression(boxes, [3, 2, 1], 3).tolist() == [0, 2]


def test_scores_keep_their_dtype(backend):
    if "float64" not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no float64")
    scores = np.array([0.5, 0.7])
    found = plugrad.image.non_max_suppression_with_score(
        np.array([BOX, BOX], "float32"), scores, 2, iou_threshold=1.0, soft_nms_sigma=0.5
    )
    assert found.selected_scores.dtype == "float64"
    found = plugrad.image.non_max_suppression_with_score(
        np.array([BOX, BOX]), scores.astype("float32"), 2, soft_nms_sigma=0.5
    )
    assert found.selected_scores.dtype == "float32"


def test_selection_has_no_gradient(backend):
    boxes, scores = plugrad.asarray([BOX, [2.0, 2.0, 3.0, 3.0]]), plugrad.asarray([0.5, 0.7])

    def value(boxes, scores):
        found = plugrad.image.non_max_suppression_with_score(boxes, scores, 2)
        return plugrad.sum(plugrad.take(scores, found.selected_indices) * found.selected_scores)

    dboxes, dscores = plugrad.grad(value, (0, 1), allow_unused=True)(boxes, scores)
    assert not dboxes.numpy().any()
    np.testing.assert_array_equal(dscores, scores)


def make_nms_call(boxes, scores, *args, **attrs):
    return lambda: plugrad.image.non_max_suppression(boxes, scores, *args, **attrs)


ERROR_CASES = [
    ErrorCase(
        make_nms_call([[0.0] * 5], [1.0], 1), ShapeError, ["boxes", "(y1, x1, y2, x2)", "(1, 5)"]
    ),
    ErrorCase(make_nms_call(BOX, [1.0], 1), ShapeError, ["boxes", "(4,)"]),
    ErrorCase(make_nms_call([BOX], [1.0, 2.0], 1), ShapeError, ["scores", "(2,)", "1 boxes"]),
    ErrorCase(make_nms_call([BOX], [[1.0]], 1), ShapeError, ["scores", "(1, 1)"]),
    ErrorCase(
        make_nms_call([BOX], [1.0], -1), ArgumentValueError, ["max_output_size=-1", "between 0 and"]
    ),
    ErrorCase(
        make_nms_call([BOX], [1.0], 1, iou_threshold=1.5),
        ArgumentValueError,
        ["iou_threshold=1.5", "between 0 and 1"],
    ),
    ErrorCase(
        lambda: plugrad.image.non_max_suppression_padded([BOX], [1.0, 2.0], 1),
        ShapeError,
        ["non_max_suppression_padded", "scores"],
    ),
    ErrorCase(
        lambda: plugrad.image.non_max_suppression_with_score([BOX], [1.0], 1, soft_nms_sigma=-1),
        ArgumentValueError,
        ["soft_nms_sigma=-1", "between 0 and 1"],
    ),
    ErrorCase(
        lambda: detection.non_max_suppression.infer(
            *(plugrad.ones((2, 3)), plugrad.ones(2)),
            max_output_size=1,
            iou_threshold=0.5,
            score_threshold=0.0,
        ),
        ShapeError,
        ["NonMaxSuppressionV3", "(2, 3)", "(2,)"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()


# Only the cpu stores these dtypes on every machine.
DTYPE_ERROR_CASES = [
    ErrorCase(
        make_nms_call([[1j] * 4], [1.0], 1), DTypeError, ["non_max_suppression", "complex64"]
    ),
]


@pytest.mark.rows("error_case", DTYPE_ERROR_CASES, ids=str)
def test_unsupported_dtypes_are_rejected(error_case):
    with plugrad.use("cpu"):
        error_case.check()
