"""Kernels that choose among overlapping boxes.

A box is a row (y1, x1, y2, x2) of two opposite corners, in either order. The box with the highest
score is selected first, and the first of several boxes with equal scores. Then the boxes that
overlap it too much are discarded, and so on. The overlap of two boxes is the area of their
intersection divided by the area of their union, and 0 if one of them has no area. Boxes whose score
is not above `score_threshold` are ignored.

At most `max_output_size` boxes are selected, and fewer if no more remain; the inferred shapes are
those for `max_output_size` boxes.

Args:
    boxes: (number, 4).
    scores: one floating number for each box.
    max_output_size: how many boxes are selected at most, 0 or more.
    iou_threshold: the smallest overlap that discards a box, from 0 to 1.
    score_threshold: the score that a box must exceed.
"""

from plugrad.contract.kernel import check_dtype, kernel
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.types.dtype import FLOATING, int32
from plugrad.types.specs import Shaped, Spec


@kernel("NonMaxSuppressionV3", accepts=FLOATING, dynamic_shape=True)
def non_max_suppression(
    boxes: Spec, scores: Spec, *, max_output_size: int, iou_threshold: float, score_threshold: float
) -> Spec:
    """Return the positions of the selected boxes; an overlap of `iou_threshold` or more discards a box.

    Returns:
        a vector of at most `max_output_size` int32 positions of boxes, the highest score first.
    """
    _check_boxes("NonMaxSuppressionV3", boxes, scores, max_output_size)
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
    """Return the positions of the selected boxes and their number.

    With `pad_to_max_output_size`, zeros fill the positions up to `max_output_size`.

    Args:
        pad_to_max_output_size: whether the positions are filled up with zeros.

    Returns:
        positions: a vector of int32 positions of boxes, the highest score first.
        count: how many boxes are selected, a 0-d int32.
    """
    _check_boxes("NonMaxSuppressionV4", boxes, scores, max_output_size)
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

    If `soft_nms_sigma` is not 0, each selected box multiplies the scores of the others by
    ``exp(-overlap**2 / (2 * soft_nms_sigma))`` (Bodla and others, 2017).

    Args:
        soft_nms_sigma: how far the score of a box falls that overlaps a selected one; 0 for not at all.

    Returns:
        positions: a vector of at most `max_output_size` int32 positions of boxes, the highest score first.
        scores: their scores, in the dtype of the scores.
    """
    _check_boxes("NonMaxSuppressionV5", boxes, scores, max_output_size)
    return Shaped((max_output_size,), int32), Shaped((max_output_size,), scores.dtype)


def _check_boxes(kernel_name: str, boxes: Spec, scores: Spec, max_output_size: int) -> None:
    """Check the scores' dtype, the shapes and the number of boxes."""
    check_dtype(f"{kernel_name} (scores)", scores, FLOATING)
    if max_output_size < 0:
        raise ArgumentValueError(f"max_output_size={max_output_size} must be 0 or more")
    if len(boxes.shape) != 2 or boxes.shape[1] != 4 or scores.shape != boxes.shape[:1]:
        raise ShapeError(
            f"boxes of shape {boxes.shape} must be rows (y1, x1, y2, x2), and scores of shape {scores.shape} "
            "one number for each of them"
        )
