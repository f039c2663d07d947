"""Normalizations. Subtracting the largest element first keeps exp from overflowing."""

import numpy as np

from plugrad.kernels import normalization
from plugrad_cpu.declare import Array, table


@table.implements(normalization.softmax)
def softmax(logits: Array, *, dim: int) -> Array:
    """Return exp(x) / sum(exp(x))."""
    if logits.size == 0:
        return logits
    y = np.exp(logits - logits.max(axis=dim, keepdims=True))
    y /= y.sum(axis=dim, keepdims=True)
    return y


@table.implements(normalization.log_softmax)
def log_softmax(logits: Array, *, axis: int) -> Array:
    """Return x - log(sum(exp(x)))."""
    if logits.size == 0:
        return logits
    shifted = logits - logits.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
