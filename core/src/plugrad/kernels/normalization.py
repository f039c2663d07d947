"""Kernels that bring elements to a common scale."""

from plugrad.contract.annotations import Axis
from plugrad.contract.kernel import agreed, kernel
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.types.dtype import FLOATING
from plugrad.types.shapes import stretches
from plugrad.types.specs import Shape, Shaped, Spec


@kernel("Softmax", accepts=FLOATING)
def softmax(logits: Spec, *, dim: Axis) -> Spec:
    """Return ``exp(x) / sum(exp(x))`` along the axis `dim`."""
    return Shaped(logits.shape, logits.dtype)


@kernel("LogSoftmax", accepts=FLOATING)
def log_softmax(logits: Spec, *, axis: Axis) -> Spec:
    """Return ``x - log(sum(exp(x)))`` along an axis."""
    return Shaped(logits.shape, logits.dtype)


@kernel("FusedBatchNorm", accepts=FLOATING)
def batch_norm(
    x: Spec,
    mean: Spec,
    variance: Spec,
    offset: Spec | None = None,
    scale: Spec | None = None,
    *,
    variance_epsilon: float = 0.001,
) -> Spec:
    """Return ``(x - mean) / sqrt(variance + variance_epsilon) * scale + offset`` (Ioffe and Szegedy, 2015).

    All inputs are broadcast to the shape of x. Without a scale it is 1, without an offset 0.
    """
    parts = {"mean": mean, "variance": variance, "offset": offset, "scale": scale}
    given = {name: part for name, part in parts.items() if part is not None}
    for name, part in given.items():
        if not stretches(part.shape, x.shape):
            raise ShapeError(
                f"{name} of shape {part.shape} does not broadcast to x of shape {x.shape}"
            )
    return Shaped(x.shape, agreed("FusedBatchNorm", x, *given.values()))


@kernel("LRN", accepts=FLOATING)
def local_response_normalization(
    x: Spec, *, depth_radius: int = 5, bias: float = 1.0, alpha: float = 1.0, beta: float = 0.5
) -> Spec:
    """Return ``x * (bias + alpha * s)**-beta``, where s is a sum of squares (Krizhevsky and others, 2012).

    The sum is over an element and its neighbours on the last axis, at most `depth_radius` away.
    """
    _check_response(x.shape, depth_radius)
    return Shaped(x.shape, x.dtype)


@kernel("LRNGrad", accepts=FLOATING)
def local_response_normalization_gradient(
    x: Spec,
    y: Spec,
    dy: Spec,
    *,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
) -> Spec:
    """Return the gradient of `local_response_normalization` for x, given its result y."""
    _check_response(x.shape, depth_radius)
    if not x.shape == y.shape == dy.shape:
        raise ShapeError(
            f"x, y and dy have shapes {x.shape}, {y.shape} and {dy.shape}; they must be equal"
        )
    return Shaped(x.shape, agreed("LRNGrad", x, y, dy))


def _check_response(shape: Shape, depth_radius: int) -> None:
    if not shape:
        raise ShapeError("x is 0-d; it must have a last axis, which holds the channels")
    if depth_radius < 0:
        raise ArgumentValueError(f"depth_radius={depth_radius} must be 0 or more")
