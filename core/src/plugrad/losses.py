"""Loss functions: how far predictions are from the labels, with weights and a reduction.

Each compares `labels` with `predictions` of the same shape. The dtype of the result is the one to
which they and the weights promote; integers and bools become float32.

`weights` hold a number for each example, or have any other shape that broadcasts to that of the
losses; None means 1. The `reduction` is "none" for one weighted loss for each example; otherwise the
result is 0-d. It is the weighted sum of the losses, undivided ("sum"), divided by the sum of the
weights ("mean"), or divided by the number of weights that are not 0 ("sum_by_nonzero_weights", the
default). Without examples, or with weights that are all 0, the result is 0.
"""

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
