"""Functions that select among overlapping boxes; they belong to the namespace `plugrad.image`.

A box is a row (y1, x1, y2, x2) of two opposite corners, in either order. The box with the highest
score is selected first, and among equal scores the first box. The boxes that overlap it too much
are discarded, and the selection goes on among the others. The overlap of two boxes is the area of
their intersection divided by that of their union, and 0 if one of them has no area.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from plugrad.errors import ShapeError
from plugrad.kernels import detection
from plugrad.ops.arguments import as_supported_dtype, as_tensor
from plugrad.ops.attributes import check_flag, check_integer, check_real

if TYPE_CHECKING:
    from plugrad.contract.kernel import Kernel
    from plugrad.tensor.tensor import Tensor, TensorLike


class PaddedSelection(NamedTuple):
    """The positions of the selected boxes, and how many of them are valid."""

    selected_indices: Tensor
    valid_outputs: Tensor


class ScoredSelection(NamedTuple):
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
    """The positions of the boxes with the highest scores that do not overlap each other much.

    >>> boxes = [[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.9], [5.0, 5.0, 6.0, 6.0]]
    >>> plugrad.image.non_max_suppression(boxes, [0.6, 0.9, 0.7], max_output_size=3)
    tensor([1, 2], dtype=int32)

    The result is an int32 vector, in descending order of the scores. Its size depends on the
    values, so the backend has to finish first.

    Args:
        boxes: one box (y1, x1, y2, x2) in each row.
        scores: one number for each box; the box with the higher score is the better one.
        max_output_size: how many boxes are selected at most.
        iou_threshold: the overlap, from 0 to 1, from which on the box with the lower score is
            discarded.
        score_threshold: boxes whose scores do not exceed it are ignored.

    Raises:
        ShapeError: the boxes are not rows of four, or there is not one score for each of them.
        DTypeError: boxes or scores hold complex numbers or strings.
        ArgumentError: a threshold is not a number, or the size is not an integer.
        ArgumentValueError: `iou_threshold` is not between 0 and 1, `score_threshold` is NaN, or
            `max_output_size` is negative or does not fit int32.
    """
    return _run_selection(
        detection.non_max_suppression,
        "non_max_suppression",
        boxes,
        scores,
        max_output_size,
        iou_threshold,
        score_threshold,
    )


def non_max_suppression_padded(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size: int,
    iou_threshold: float = 0.5,
    score_threshold: float = -inf,
    pad_to_max_output_size: bool = False,
) -> PaddedSelection:
    """The positions of the boxes that `non_max_suppression` selects, and their number, as int32.

    >>> boxes = [[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.9], [5.0, 5.0, 6.0, 6.0]]
    >>> plugrad.image.non_max_suppression_padded(
    ...     boxes, [0.6, 0.9, 0.7], max_output_size=4, pad_to_max_output_size=True
    ... )
    PaddedSelection(selected_indices=tensor([1, 2, 0, 0], dtype=int32), valid_outputs=tensor(2, dtype=int32))

    With ``pad_to_max_output_size=True`` the positions are filled up with zeros to
    `max_output_size`, so that the shape does not depend on the values. The other arguments are as
    for `non_max_suppression`.

    Raises:
        ArgumentError: `pad_to_max_output_size` is not a bool, or as for `non_max_suppression`.
        ShapeError, DTypeError, ArgumentValueError: as for `non_max_suppression`.
    """
    op = "non_max_suppression_padded"
    positions, count = _run_selection(
        detection.non_max_suppression_padded,
        op,
        boxes,
        scores,
        max_output_size,
        iou_threshold,
        score_threshold,
        pad_to_max_output_size=check_flag(pad_to_max_output_size, op, "pad_to_max_output_size"),
    )
    return PaddedSelection(positions, count)


def non_max_suppression_with_score(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size: int,
    iou_threshold: float = 0.5,
    score_threshold: float = -inf,
    soft_nms_sigma: float = 0.0,
) -> ScoredSelection:
    """The positions of the selected boxes as int32, and their scores in the dtype of `scores`.

    >>> boxes = [[0.0, 0.0, 2.0, 2.0], [0.0, 1.0, 2.0, 3.0], [5.0, 5.0, 6.0, 6.0]]
    >>> plugrad.image.non_max_suppression_with_score(
    ...     boxes, [0.9, 0.8, 0.75], max_output_size=3, soft_nms_sigma=0.5
    ... ).selected_indices
    tensor([0, 2, 1], dtype=int32)

    `soft_nms_sigma` is a number from 0 to 1. If it is not 0, each selected box multiplies the
    scores of the boxes that overlap it by ``exp(-overlap**2 / (2 * soft_nms_sigma))``. The other
    arguments are as for `non_max_suppression`. Integer scores become float32. See Bodla et al.,
    "Soft-NMS: improving object detection with one line of code" (2017).

    Raises:
        ArgumentError: `soft_nms_sigma` is not a number, or as for `non_max_suppression`.
        ArgumentValueError: `soft_nms_sigma` is not between 0 and 1, or as for
            `non_max_suppression`.
        ShapeError, DTypeError: as for `non_max_suppression`.
    """
    op = "non_max_suppression_with_score"
    positions, selected_scores = _run_selection(
        detection.non_max_suppression_with_score,
        op,
        boxes,
        scores,
        max_output_size,
        iou_threshold,
        score_threshold,
        soft_nms_sigma=check_real(soft_nms_sigma, op, "soft_nms_sigma", least=0, most=1),
    )
    return ScoredSelection(positions, selected_scores)


def _run_selection(
    kernel: Kernel[..., Any],
    op: str,
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size: int,
    iou_threshold: float,
    score_threshold: float,
    **attrs: Any,
) -> Any:
    """Check the arguments that all selections share, then run the kernel."""
    corners = as_supported_dtype(boxes, kernel, op, "boxes")
    marks = as_supported_dtype(
        as_tensor(scores, op, "scores", backend=corners.backend), kernel, op, "scores"
    )
    if corners.ndim != 2 or corners.shape[1] != 4:
        raise ShapeError(f"{op}: boxes must be rows (y1, x1, y2, x2); the shape is {corners.shape}")
    if marks.shape != corners.shape[:1]:
        raise ShapeError(
            f"{op}: scores have shape {marks.shape}; there must be one for each of the {corners.shape[0]} boxes"
        )
    return kernel(
        corners,
        marks,
        max_output_size=check_integer(
            max_output_size, op, "max_output_size", least=0, most=2**31 - 1
        ),
        iou_threshold=check_real(iou_threshold, op, "iou_threshold", least=0, most=1),
        score_threshold=check_real(score_threshold, op, "score_threshold"),
        **attrs,
    )
