"""Test rows of non-maximum suppression, which selects among overlapping boxes."""

# What references take is an array, which a lambda has no place to say.
# pyright: basic

from typing import Final

import numpy as np

from plugrad.kernels import detection
from plugrad.testing.rows import FLOATING_DTYPES, Array, Input, Row


def intersection_over_union(a: Array, b: Array) -> float:
    """Return the intersection over union of two boxes."""
    low, high = np.minimum(a[:2], a[2:]), np.maximum(a[:2], a[2:])
    low_b, high_b = np.minimum(b[:2], b[2:]), np.maximum(b[:2], b[2:])
    areas = np.prod(high - low), np.prod(high_b - low_b)
    common = np.prod(np.maximum(np.minimum(high, high_b) - np.maximum(low, low_b), 0))
    return float(common / (sum(areas) - common)) if min(areas) > 0 else 0.0


def select_boxes(
    boxes: Array, scores: Array, selection_limits: tuple[int, float, float], sigma: float = 0
) -> list[Array]:
    """Return the indices and scores of the selected boxes, one after another."""
    count, iou, least = selection_limits
    left = dict(enumerate(scores.tolist()))
    chosen: list[tuple[int, float]] = []
    while len(chosen) < count and (left := {i: s for i, s in left.items() if s > least}):
        best = max(left, key=lambda i: (left[i], -i))
        chosen.append((best, left.pop(best)))
        shared = {i: intersection_over_union(boxes[best], boxes[i]) for i in left}
        left = {
            i: s * np.exp(-(shared[i] ** 2) / (2 * sigma)) if sigma else s
            for i, s in left.items()
            if shared[i] < iou
        }
    return [np.array([i for i, _ in chosen], int), np.array([s for _, s in chosen], float)]


def pad_indices(indices: Array, padded_length: int) -> list[Array]:
    """Return indices padded with zeros, and their number."""
    return [np.pad(indices, (0, max(0, padded_length - len(indices)))), np.array(len(indices))]


boxes: Final = Input(
    lambda rng, shape, dtype: (rng.integers(0, 7, shape) / 4).astype(dtype), (20, 4)
)
"""An input of the corners of boxes."""
scores: Final = Input(lambda rng, shape, dtype: rng.permutation(20).astype(dtype) / 32, (20,))
"""An input of different scores, one for each box."""
SELECTION_LIMITS = [(5, 0.5, -np.inf), (20, 0.2, 0.3), (4, 1.0, 0.1), (0, 0.5, 0.0)]
"""Most boxes to select, largest overlap and smallest score of each case."""


def selection_attributes(
    max_output_size: int, iou_threshold: float, score_threshold: float, **other_attributes: object
) -> dict[str, object]:
    """Return the attributes of a kernel for non-maximum suppression."""
    names = {
        "max_output_size": max_output_size,
        "iou_threshold": iou_threshold,
        "score_threshold": score_threshold,
    }
    return {**names, **other_attributes}


TEST_ROWS = [
    row
    for limits in SELECTION_LIMITS
    for row in [
        Row(
            detection.non_max_suppression,
            lambda b, s, limits=limits: select_boxes(b, s, limits)[0],
            [boxes, scores],
            selection_attributes(*limits),
            dtypes=FLOATING_DTYPES[:2],
            is_edge=not limits[0],
        ),
        *(
            Row(
                detection.non_max_suppression_padded,
                lambda b, s, limits=limits, full=full: pad_indices(
                    select_boxes(b, s, limits)[0], limits[0] if full else 0
                ),
                [boxes, scores],
                selection_attributes(*limits, pad_to_max_output_size=full),
                dtypes=FLOATING_DTYPES[:2],
                is_edge=not limits[0],
            )
            for full in (False, True)
        ),
        *(
            Row(
                detection.non_max_suppression_with_score,
                lambda b, s, limits=limits, sigma=sigma: select_boxes(b, s, limits, sigma),
                [boxes, scores],
                selection_attributes(*limits, soft_nms_sigma=sigma),
                dtypes=FLOATING_DTYPES[:2],
                is_edge=not limits[0],
                is_smooth=False,
            )
            for sigma in (0.0, 0.5)
        ),
    ]
]
