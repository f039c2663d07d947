"""Selection of boxes: one pass over the remaining boxes for each box that is selected."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from plugrad.contract.kernel import Kernel
from plugrad.kernels import detection

Array = NDArray[Any]
"""A NumPy array of any dtype and shape."""


def non_max_suppression(
    boxes: Array,
    scores: Array,
    *,
    max_output_size: int,
    iou_threshold: float,
    score_threshold: float,
) -> Array:
    """Return the indices of the selected boxes."""
    return _select_boxes(boxes, scores, max_output_size, iou_threshold, score_threshold)[0]


def non_max_suppression_padded(
    boxes: Array,
    scores: Array,
    *,
    max_output_size: int,
    iou_threshold: float,
    score_threshold: float,
    pad_to_max_output_size: bool,
) -> tuple[Array, Array]:
    """Return the indices of the selected boxes, padded, and their number."""
    indices, _ = _select_boxes(boxes, scores, max_output_size, iou_threshold, score_threshold)
    count = np.array(len(indices), np.int32)
    if pad_to_max_output_size:
        indices = np.pad(indices, (0, max_output_size - len(indices)))
    return indices, count


def non_max_suppression_with_score(
    boxes: Array,
    scores: Array,
    *,
    max_output_size: int,
    iou_threshold: float,
    score_threshold: float,
    soft_nms_sigma: float,
) -> tuple[Array, Array]:
    """Return the indices and the scores of the selected boxes."""
    return _select_boxes(
        boxes, scores, max_output_size, iou_threshold, score_threshold, soft_nms_sigma
    )


def _select_boxes(
    boxes: Array,
    scores: Array,
    max_output_size: int,
    iou_threshold: float,
    score_threshold: float,
    sigma: float = 0.0,
) -> tuple[Array, Array]:
    """Return the indices and scores of the selected boxes, best first."""
    lows = np.minimum(boxes[:, :2], boxes[:, 2:])
    highs = np.maximum(boxes[:, :2], boxes[:, 2:])
    areas = (highs - lows).prod(axis=1)
    dtype = scores.dtype
    (positions,) = np.nonzero(scores > score_threshold)
    scores = scores[positions]
    chosen: list[np.intp] = []
    chosen_scores: list[float] = []
    while len(positions) and len(chosen) < max_output_size:
        best = np.argmax(scores)
        chosen.append(positions[best])
        chosen_scores.append(scores[best])
        left = np.arange(len(positions)) != best
        positions, scores = positions[left], scores[left]
        overlap = _intersection_over_union(lows, highs, areas, chosen[-1], positions)
        if sigma > 0:
            scores = scores * np.exp(overlap * overlap * (-0.5 / sigma))
        left = (overlap < iou_threshold) & (scores > score_threshold)
        positions, scores = positions[left], scores[left]
    return np.array(chosen, np.int32), np.array(chosen_scores, dtype)


def _intersection_over_union(
    low_corners: Array, high_corners: Array, areas: Array, box_index: np.intp, other_indices: Array
) -> Array:
    """Return the area of intersection over the area of union, for one box and each of some others."""
    sides = np.minimum(high_corners[box_index], high_corners[other_indices]) - np.maximum(
        low_corners[box_index], low_corners[other_indices]
    )
    common = np.maximum(sides, 0).prod(axis=1)
    covered = areas[box_index] + areas[other_indices] - common
    has_area = (areas[box_index] > 0) & (areas[other_indices] > 0)
    return np.divide(common, covered, out=np.zeros_like(common), where=has_area)


HOST_IMPLEMENTATIONS: Final[dict[Kernel[..., Any], Any]] = {
    detection.non_max_suppression: non_max_suppression,
    detection.non_max_suppression_padded: non_max_suppression_padded,
    detection.non_max_suppression_with_score: non_max_suppression_with_score,
}
"""By kernel, the NumPy function that computes it."""
