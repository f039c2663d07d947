"""Gradients of attention.

With ``S = scale q kᵀ + mask``, ``P = softmax(S)`` and ``y = P v``: ``dv = Pᵀ dy``, ``dP = dy vᵀ``,
``dS = P (dP - D)`` where D are the sums of ``P dP`` along rows, ``dq = scale dS k`` and ``dk = scale dSᵀ q``.
The kernels compute P row by row. The gradient for a mask, and second derivatives, take whole matrices.
"""

from collections.abc import Callable, Mapping
from functools import cache
from math import inf
from typing import Any

from plugrad.kernels import attention
from plugrad.ops.binary import equal, where
from plugrad.ops.linalg import matmul
from plugrad.ops.normalization import softmax
from plugrad.ops.reduction import max, sum
from plugrad.tape.rules import GradientConfig, register_gradient
from plugrad.tensor.tensor import Tensor

GradientThunks = dict[str, Callable[[], Tensor]]
"""By input, the function that computes its gradient when it is called."""


def _attention_weights(q: Tensor, k: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """Return the attention weights, a softmax per query; rows in which the mask leaves no key are zeros."""
    scores = matmul(scale * q, k, transpose_b=True)
    if mask is None:
        return softmax(scores)
    scores = scores + mask
    is_empty = equal(max(scores, axis=-1, keepdims=True), -inf)
    return where(is_empty, 0, softmax(where(is_empty, 0, scores)))


def _row_sums(x: Tensor) -> Tensor:
    """Return the sums along the last axis, which keeps size 1."""
    return sum(x, axis=-1, keepdims=True)


def _attention_thunks(dy: Tensor, saved: list[Any], attrs: Mapping[str, Any]) -> GradientThunks:
    """Return functions that compute the gradients of attention for each input, when they are called."""
    q, k, v, mask = saved
    found = cache(lambda: attention.attention_gradient(dy, q, k, v, mask, **attrs))

    def mask_gradient() -> Tensor:
        weights, slopes = (
            _attention_weights(q, k, mask, attrs["scale"]),
            matmul(dy, v, transpose_b=True),
        )
        return weights * (slopes - _row_sums(weights * slopes))

    return {
        "q": lambda: found()[0],
        "k": lambda: found()[1],
        "v": lambda: found()[2],
        "mask": mask_gradient,
    }


def _attention_gradient_thunks(
    dys: Any, saved: list[Any], attrs: Mapping[str, Any]
) -> GradientThunks:
    """Return functions for the second derivatives of attention, given the gradients `dys` of dq, dk and dv."""
    a, b, c = dys
    dy, q, k, v, mask = saved
    scale = attrs["scale"]
    weights, slopes = _attention_weights(q, k, mask, scale), matmul(dy, v, transpose_b=True)
    total = _row_sums(weights * slopes)
    through_scores = weights * (slopes - total)  # dS
    # What dS is multiplied with in a·dq + b·dk
    w = scale * (matmul(a, k, transpose_b=True) + matmul(q, b, transpose_b=True))
    w_total = _row_sums(weights * w)
    for_slopes = weights * (w - w_total)
    for_weights = w * (slopes - total) - slopes * w_total + matmul(dy, c, transpose_b=True)
    for_scores = weights * (for_weights - _row_sums(weights * for_weights))
    return {
        "dy": lambda: matmul(for_slopes, v) + matmul(weights, c),
        "q": lambda: scale * (matmul(for_scores, k) + matmul(through_scores, b)),
        "k": lambda: (
            scale
            * (
                matmul(for_scores, q, transpose_a=True)
                + matmul(through_scores, a, transpose_a=True)
            )
        ),
        "v": lambda: matmul(for_slopes, dy, transpose_a=True),
        "mask": lambda: for_scores,
    }


for kernel, compute_gradients in {
    attention.attention: _attention_thunks,
    attention.attention_gradient: _attention_gradient_thunks,
}.items():
    register_gradient(GradientConfig(kernel.name, compute_gradients, kernel.inputs))
