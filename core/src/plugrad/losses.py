"""Losses: what a model should make small, each with weights and a reduction."""

from plugrad.ops.losses import (
    Reduction as Reduction,
    absolute_difference as absolute_difference,
    compute_weighted_loss as compute_weighted_loss,
    cosine_distance as cosine_distance,
    hinge_loss as hinge_loss,
    huber_loss as huber_loss,
    log_loss as log_loss,
    mean_squared_error as mean_squared_error,
    sigmoid_cross_entropy as sigmoid_cross_entropy,
    softmax_cross_entropy as softmax_cross_entropy,
)
