"""Kernels that choose among overlapping boxes.

A box is a row (y1, x1, y2, x2) of two opposite corners, in either order. The box with the best
score is selected first, of equal ones the first; then the boxes that overlap it too much are out of
the running, and so on. The overlap of two boxes is their common area divided by the area that they
cover together, 0 if one of them has no area. Boxes whose score is not above `score_threshold` do
not take part.

As many boxes are selected as there are, `max_output_size` at most; the shapes that are told are
those of that many.
"""

from plugrad.contract.kernel import accepted, kernel
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.types.dtype import FLOATING, int32
from plugrad.types.specs import Shaped, Spec


@kernel("NonMaxSuppressionV3", accepts=FLOATING, dynamic_shape=True)
def non_max_suppression(
    boxes: Spec, scores: Spec, *, max_output_size: int, iou_threshold: float, score_threshold: float
) -> Spec:
    """Return the positions of the selected boxes; those that overlap one by `iou_threshold` or more are out."""
    _check("NonMaxSuppressionV3", boxes, scores, max_output_size)
    return Shaped((max_output_size,), int32)


@kernel("NonMaxSuppressionV4", accepts=FLOATING, dynamic_shape=True)
def non_max_suppression_padded(
    boxes: Spec,
    scores: Spec,
    *,
    max_output_size: int,
    iou_threshold: float,
    score_threshold: float,
    pad_to_max_output_size: bool = False,
) -> tuple[Spec, Spec]:
    """Return the positions of the selected boxes, filled up with zeros if asked for, and how many these are."""
    _check("NonMaxSuppressionV4", boxes, scores, max_output_size)
    return Shaped((max_output_size,), int32), Shaped((), int32)


@kernel("NonMaxSuppressionV5", accepts=FLOATING, dynamic_shape=True)
def non_max_suppression_with_score(
    boxes: Spec,
    scores: Spec,
    *,
    max_output_size: int,
    iou_threshold: float,
    score_threshold: float,
    soft_nms_sigma: float = 0.0,
) -> tuple[Spec, Spec]:
    """Return the positions of the selected boxes and their scores.

    If `soft_nms_sigma` is not 0, each selected box multiplies the scores of the others, where their
    overlap is, by ``exp(-overlap**2 / (2 * soft_nms_sigma))`` (Bodla et al., 2017).
    """
    _check("NonMaxSuppressionV5", boxes, scores, max_output_size)
    return Shaped((max_output_size,), int32), Shaped((max_output_size,), scores.dtype)


def _check(name: str, boxes: Spec, scores: Spec, max_output_size: int) -> None:
    if max_output_size < 0:
        raise ArgumentValueError(f"{name}: max_output_size={max_output_size} must be 0 or more")
    accepted(f"{name} (boxes)", boxes, FLOATING)
    accepted(f"{name} (scores)", scores, FLOATING)
    if len(boxes.shape) != 2 or boxes.shape[1] != 4 or scores.shape != boxes.shape[:1]:
        raise ShapeError(
            f"{name}: boxes of shape {boxes.shape} and scores of shape {scores.shape} must be rows "
            "(y1, x1, y2, x2), and one score for each"
        )
