"""Gradients made smaller before a step."""

from collections.abc import Sequence
from math import inf

from plugrad.errors import ArgumentValueError
from plugrad.ops.binary import clip, maximum
from plugrad.ops.reduction import sum
from plugrad.ops.unary import abs, sqrt, square
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import float16, float32


def clip_by_value(gradients: Sequence[Tensor], limit: float) -> list[Tensor]:
    """The gradients with each element brought into ``[-limit, limit]``.

    >>> plugrad.optimizers.clip_by_value([plugrad.asarray([-3.0, 0.5])], 1.0)
    [tensor([-1. ,  0.5], dtype=float32)]

    Raises:
        ArgumentValueError: the limit is not positive.
    """
    _check_limit("clip_by_value", "limit", limit)
    return [clip(g, -limit, limit) for g in gradients]


def clip_by_global_norm(gradients: Sequence[Tensor], max_norm: float) -> list[Tensor]:
    """The gradients, scaled down together if the norm of all their elements exceeds `max_norm` (Pascanu et al., 2013).

    >>> plugrad.optimizers.clip_by_global_norm([plugrad.asarray([3.0, 4.0])], 1.0)
    [tensor([0.6, 0.8], dtype=float32)]

    Raises:
        ArgumentValueError: the largest norm is not positive.
    """
    _check_limit("clip_by_global_norm", "max_norm", max_norm)
    if not gradients or max_norm == inf:
        return list(gradients)
    first, *rest = [sum(square(_roomy(abs(g)))) for g in gradients]
    for part in rest:
        first = first + part.astype(first.dtype)
    scale = max_norm / maximum(sqrt(first), max_norm)  # 1 where the norm is small enough
    return [g * scale.astype(g.dtype) for g in gradients]


def _roomy(x: Tensor) -> Tensor:
    """Return `x` in a dtype in which its squares do not overflow so soon."""
    return x.astype(float32) if x.dtype is float16 else x


def _check_limit(function: str, name: str, value: float) -> None:
    if not value > 0:
        raise ArgumentValueError(f"{function}: {name}={value} must be positive")
