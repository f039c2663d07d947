"""Gradients of detection."""

from plugrad.kernels import detection
from plugrad.tape.rules import not_differentiable

not_differentiable(
    detection.non_max_suppression,
    detection.non_max_suppression_padded,
    detection.non_max_suppression_with_score,
    because="they return positions, and scores that a small change of a box may remove",
)
