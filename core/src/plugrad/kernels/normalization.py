"""Kernels that scale the elements along an axis to a common measure."""

from plugrad.dtype import FLOATING
from plugrad.kernel import Shaped, Spec, accepted, kernel
from plugrad.shapes import axis_of


@kernel("Softmax", accepts=FLOATING)
def softmax(logits: Spec, *, dim: int) -> Spec:
    """Return ``exp(x) / sum(exp(x))`` along the axis `dim`."""
    axis_of(dim, len(logits.shape), name="dim")
    return Shaped(logits.shape, accepted("Softmax", logits, FLOATING))


@kernel("LogSoftmax", accepts=FLOATING)
def log_softmax(logits: Spec, *, axis: int) -> Spec:
    """Return ``x - log(sum(exp(x)))`` along an axis."""
    axis_of(axis, len(logits.shape))
    return Shaped(logits.shape, accepted("LogSoftmax", logits, FLOATING))
