"""Attention."""

import torch

from plugrad.kernels import attention as contracts
from plugrad_torch.declare import Array, implements


def attention_weights(q: Array, k: Array, mask: Array | None, scale: float) -> Array:
    """Return the softmax of the scores; zeros where the mask leaves no key."""
    scores = (q * scale) @ k.mT
    if mask is not None:
        scores = scores + mask
    if not k.shape[-2]:
        return scores
    peaks = scores.amax(-1, keepdim=True)
    powers = torch.exp(scores - torch.where(peaks == -torch.inf, 0.0, peaks))
    total = powers.sum(-1, keepdim=True)
    return powers / torch.where(total == 0, 1.0, total)


@implements(contracts.attention)
def attention(q: Array, k: Array, v: Array, mask: Array | None, *, scale: float) -> Array:
    """Return the weighted averages of the values."""
    return attention_weights(q, k, mask, scale) @ v


@implements(contracts.attention_gradient)
def attention_gradient(
    dy: Array, q: Array, k: Array, v: Array, mask: Array | None, *, scale: float
) -> list[Array]:
    """Return the gradients for q, k and v."""
    p = attention_weights(q, k, mask, scale)
    slopes = dy @ v.mT
    slopes = (slopes - (slopes * p).sum(-1, keepdim=True)) * p * scale
    return [slopes @ k, slopes.mT @ q, p.mT @ dy]
