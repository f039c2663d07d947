"""Functions that limit gradients before a step."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from plugrad.errors import ArgumentValueError
from plugrad.ops.arguments import as_tensor
from plugrad.ops.attributes import as_list, check_real
from plugrad.ops.binary import clip, maximum
from plugrad.ops.movement import stack
from plugrad.ops.norms import vector_norm
from plugrad.types.dtype import float16, float32

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.tensor.tensor import Tensor


def clip_by_value(gradients: Sequence[Tensor], limit: float) -> list[Tensor]:
    """Return the gradients with each element limited to ``[-limit, limit]``.

    >>> plugrad.optimizers.clip_by_value([plugrad.asarray([-3.0, 0.5])], 1.0)
    [tensor([-1. ,  0.5], dtype=float32)]

    Raises:
        ArgumentError: the limit is not a number.
        ArgumentValueError: the limit is not positive.
        DTypeError: a gradient is complex.
    """
    _check_limit("clip_by_value", "limit", limit)
    tensors = _as_tensors("clip_by_value", gradients)
    return [clip(g, -limit, limit) for g in tensors]


def clip_by_global_norm(gradients: Sequence[Tensor], max_norm: float) -> list[Tensor]:
    """Return the gradients, scaled down together if the norm of all their elements exceeds `max_norm`.

    The norm is the square root of the sum of all squares, and the scale ``max_norm / norm`` (Pascanu
    et al., 2013).

    >>> plugrad.optimizers.clip_by_global_norm([plugrad.asarray([3.0, 4.0])], 1.0)
    [tensor([0.6, 0.8], dtype=float32)]

    Raises:
        ArgumentError: `max_norm` is not a number.
        ArgumentValueError: `max_norm` is not positive.
    """
    _check_limit("clip_by_global_norm", "max_norm", max_norm)
    tensors = _as_tensors("clip_by_global_norm", gradients)
    if not tensors or max_norm == inf:
        return tensors
    first, *others = [vector_norm(_as_float32(g)) for g in tensors]
    norm = vector_norm(stack([first, *(x.astype(first.dtype) for x in others)]))
    scale = max_norm / maximum(norm, max_norm)  # 1 where the norm is small enough
    return [g * scale.astype(g.dtype) for g in tensors]


def _as_tensors(function: str, gradients: Sequence[Tensor]) -> list[Tensor]:
    """Return gradients as a list of tensors.

    Raises:
        ArgumentError: they are not a list, or one of them is neither a tensor nor an array.
    """
    return [as_tensor(g, function, "a gradient") for g in as_list(gradients, function, "gradients")]


def _as_float32(x: Tensor) -> Tensor:
    """Cast float16 to float32, because float16 squares overflow above 255."""
    return x.astype(float32) if x.dtype is float16 else x


def _check_limit(function: str, name: str, value: float) -> None:
    if check_real(value, function, name) <= 0:
        raise ArgumentValueError(f"{function}: {name}={value} must be positive")
