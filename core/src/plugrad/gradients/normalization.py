"""Gradients of the normalizations."""

from plugrad.gradient import gradient
from plugrad.kernels import normalization
from plugrad.ops.reduction import sum
from plugrad.ops.unary import exp

gradient(
    normalization.softmax,
    logits=lambda dy, out, dim: out * (dy - sum(dy * out, axis=dim, keepdims=True)),
)
gradient(
    normalization.log_softmax,
    logits=lambda dy, out, axis: dy - exp(out) * sum(dy, axis=axis, keepdims=True),
)
