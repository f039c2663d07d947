"""Functions that choose among overlapping boxes; they belong to the namespace `plugrad.image`.

Boxes are rows (y1, x1, y2, x2) of two opposite corners, in either order. The box with the best score
is selected first, of equal ones the first; then the boxes that overlap it too much are out of the
running, and so on. The overlap of two boxes is their common area divided by the area that they
cover together, 0 if one of them has no area.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from plugrad.errors import ShapeError
from plugrad.kernels import detection
from plugrad.ops.arguments import as_tensor, coerced
from plugrad.ops.attributes import flag, real, whole

if TYPE_CHECKING:
    from plugrad.contract.kernel import Kernel
    from plugrad.tensor.tensor import Tensor, TensorLike


class Padded(NamedTuple):
    """The positions of the selected boxes, and how many of them are valid."""

    selected_indices: Tensor
    valid_outputs: Tensor


class Scored(NamedTuple):
    """The positions of the selected boxes, and their scores."""

    selected_indices: Tensor
    selected_scores: Tensor


def non_max_suppression(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size: int,
    iou_threshold: float = 0.5,
    score_threshold: float = -inf,
) -> Tensor:
    """The positions of the boxes with the best scores that do not overlap each other much, as int32.

    >>> boxes = [[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.9], [5.0, 5.0, 6.0, 6.0]]
    >>> plugrad.image.non_max_suppression(boxes, [0.6, 0.9, 0.7], max_output_size=3)
    tensor([1, 2], dtype=int32)

    Args:
        boxes: one box (y1, x1, y2, x2) in each row.
        scores: a number for each box, the larger the better.
        max_output_size: how many boxes are selected at most.
        iou_threshold: the overlap, from 0 to 1, from which on the box with the lower score is out.
        score_threshold: boxes whose score is not above it do not take part.

    Raises:
        ShapeError: the boxes are not rows of four, or there is not one score for each.
        ArgumentValueError: a threshold or the size makes no sense.
    """
    return _run(
        detection.non_max_suppression,
        "non_max_suppression",
        *(boxes, scores, max_output_size, iou_threshold, score_threshold),
    )


def non_max_suppression_padded(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size: int,
    iou_threshold: float = 0.5,
    score_threshold: float = -inf,
    pad_to_max_output_size: bool = False,
) -> Padded:
    """The positions of the selected boxes, and how many these are; arguments as for `non_max_suppression`.

    >>> boxes = [[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.9], [5.0, 5.0, 6.0, 6.0]]
    >>> plugrad.image.non_max_suppression_padded(
    ...     boxes, [0.6, 0.9, 0.7], max_output_size=4, pad_to_max_output_size=True
    ... )
    Padded(selected_indices=tensor([1, 2, 0, 0], dtype=int32), valid_outputs=tensor(2, dtype=int32))

    With ``pad_to_max_output_size=True`` zeros follow until there are `max_output_size` positions, so
    that the shape does not depend on the boxes.
    """
    op = "non_max_suppression_padded"
    return Padded(
        *_run(
            detection.non_max_suppression_padded,
            op,
            *(boxes, scores, max_output_size, iou_threshold, score_threshold),
            pad_to_max_output_size=flag(pad_to_max_output_size, op, "pad_to_max_output_size"),
        )
    )


def non_max_suppression_with_score(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size: int,
    iou_threshold: float = 0.5,
    score_threshold: float = -inf,
    soft_nms_sigma: float = 0.0,
) -> Scored:
    """The positions of the selected boxes, and their scores; arguments as for `non_max_suppression`.

    >>> boxes = [[0.0, 0.0, 2.0, 2.0], [0.0, 1.0, 2.0, 3.0], [5.0, 5.0, 6.0, 6.0]]
    >>> plugrad.image.non_max_suppression_with_score(
    ...     boxes, [0.9, 0.8, 0.75], max_output_size=3, soft_nms_sigma=0.5
    ... ).selected_indices
    tensor([0, 2, 1], dtype=int32)

    With a `soft_nms_sigma` from 0 to 1, above 0, each selected box lowers the scores of the boxes that
    overlap it, the more the smaller `soft_nms_sigma` is: by ``exp(-overlap**2 / (2 * soft_nms_sigma))``.
    See Bodla et al., "Soft-NMS: improving object detection with one line of code" (2017).
    """
    op = "non_max_suppression_with_score"
    return Scored(
        *_run(
            detection.non_max_suppression_with_score,
            op,
            *(boxes, scores, max_output_size, iou_threshold, score_threshold),
            soft_nms_sigma=real(soft_nms_sigma, op, "soft_nms_sigma", least=0, most=1),
        )
    )


def _run(
    kernel: Kernel[..., Any],
    op: str,
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size: int,
    iou_threshold: float,
    score_threshold: float,
    **attrs: Any,
) -> Any:
    corners = coerced(boxes, kernel, op, "boxes")
    marks = coerced(as_tensor(scores, op, "scores", backend=corners.backend), kernel, op, "scores")
    if corners.ndim != 2 or corners.shape[1] != 4:
        raise ShapeError(f"{op}: boxes must be rows (y1, x1, y2, x2); the shape is {corners.shape}")
    if marks.shape != corners.shape[:1]:
        raise ShapeError(
            f"{op}: scores of shape {marks.shape} must be one for each of the {corners.shape[0]} boxes"
        )
    return kernel(
        corners,
        marks,
        max_output_size=whole(max_output_size, op, "max_output_size", least=0, most=2**31 - 1),
        iou_threshold=real(iou_threshold, op, "iou_threshold", least=0, most=1),
        score_threshold=real(score_threshold, op, "score_threshold"),
        **attrs,
    )
