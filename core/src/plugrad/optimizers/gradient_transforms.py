"""Functions that change gradients before a step; see `Optimizer.with_transforms`."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from plugrad.errors import ArgumentError, ArgumentValueError, short_repr
from plugrad.ops.arguments import as_tensor
from plugrad.ops.attributes import as_list, check_real
from plugrad.ops.binary import clip, maximum
from plugrad.ops.movement import stack
from plugrad.ops.norms import vector_norm
from plugrad.ops.random import Generator
from plugrad.ops.reduction import mean
from plugrad.ops.transfer import host_value
from plugrad.types.dtype import HALVES, float32

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    limit = _check_limit("clip_by_value", "limit", limit)
    tensors = _as_tensors("clip_by_value", gradients)
    return [clip(g, -limit, limit) for g in tensors]


def clip_by_norm(gradients: Sequence[Tensor], max_norm: float) -> list[Tensor]:
    """Return the gradients, each scaled down if its own norm exceeds `max_norm`.

    >>> plugrad.optimizers.clip_by_norm([plugrad.asarray([3.0, 4.0]), plugrad.asarray(0.5)], 1.0)
    [tensor([0.6, 0.8], dtype=float32), tensor(0.5, dtype=float32)]

    Raises:
        ArgumentError: `max_norm` is not a number.
        ArgumentValueError: `max_norm` is not positive.
    """
    _check_limit("clip_by_norm", "max_norm", max_norm)
    tensors = _as_tensors("clip_by_norm", gradients)
    if max_norm == inf:
        return tensors
    return [_scale_down(g, vector_norm(_as_float32(g)), max_norm) for g in tensors]


def clip_by_global_norm(gradients: Sequence[Tensor], max_norm: float) -> list[Tensor]:
    """Return the gradients, scaled down together if their joint norm exceeds `max_norm`.

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
    return [_scale_down(g, norm, max_norm) for g in tensors]


def centralize(gradients: Sequence[Tensor]) -> list[Tensor]:
    """Return the gradients of weights minus their mean per output; other gradients are unchanged.

    The outputs of weights lie along their last axis, as those of layers do, and the mean is over all other axes (Yong
    et al., "Gradient centralization", 2020). What has fewer than two axes, such as a bias, is not centralized.

    >>> weight, bias = plugrad.asarray([[1.0, 5.0], [3.0, 9.0]]), plugrad.asarray([1.0, 2.0])
    >>> plugrad.optimizers.centralize([weight, bias])[0]
    tensor([[-1., -2.],
            [ 1.,  2.]], dtype=float32)

    Raises:
        ArgumentError: the gradients are not a list of tensors.
    """
    tensors = _as_tensors("centralize", gradients)
    return [
        g - mean(g, axis=tuple(range(g.ndim - 1)), keepdims=True) if g.ndim > 1 and g.size else g
        for g in tensors
    ]


def add_noise(
    gradients: Sequence[Tensor], generator: Generator, deviation: float | Callable[[], float]
) -> list[Tensor]:
    """Return the gradients plus normally distributed noise.

    Neelakantan et al., "Adding gradient noise improves learning" (2015), let it fade: after t steps the deviation is
    ``sqrt(eta / (1 + t)**0.55)``, with eta 0.01, 0.3 or 1.

    >>> optimizer, generator = plugrad.optimizers.SGD(0.1), plugrad.random.Generator(0)
    >>> fading = lambda: (0.01 / (1 + optimizer.iterations) ** 0.55) ** 0.5
    >>> optimizer = optimizer.with_transforms(
    ...     lambda gradients: plugrad.optimizers.add_noise(gradients, generator, fading)
    ... )

    Args:
        gradients: the gradients.
        generator: where the noise comes from; a traced program draws anew in each call. For many processes, give each
            a generator of the same seed, so that all take the same steps.
        deviation: the standard deviation of the noise, or a function without arguments that returns it. A traced
            program asks the function in each call.

    Raises:
        ArgumentError: the generator is none, or the deviation is not a number.
        ArgumentValueError: the deviation is negative.
        DTypeError: a gradient is not real.
    """
    if not isinstance(generator, Generator):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
        raise ArgumentError(
            f"add_noise: generator={short_repr(generator)} must be one, such as plugrad.random.Generator(0)"
        )
    tensors = _as_tensors("add_noise", gradients)
    noise = [generator.standard_normal(g.shape, dtype=g.dtype, device=g.backend) for g in tensors]
    return [g + x * _resolve_deviation(g, deviation) for g, x in zip(tensors, noise, strict=True)]


def _resolve_deviation(gradient: Tensor, deviation: float | Callable[[], float]) -> Tensor | float:
    """Return a standard deviation; if it is a function, it is called in each run of a traced program."""
    if not callable(deviation):
        return _check_deviation(deviation)
    return host_value(
        lambda: _check_deviation(deviation()), dtype=gradient.dtype, device=gradient.backend
    )


def _check_deviation(deviation: float) -> float:
    """Return a standard deviation; raise unless it is 0 or more."""
    if not check_real(deviation, "add_noise", "deviation") >= 0:
        raise ArgumentValueError(f"add_noise: deviation={deviation} must be 0 or more")
    return deviation


def _scale_down(gradient: Tensor, norm: Tensor, max_norm: float) -> Tensor:
    """Return a gradient scaled to `max_norm` if its norm is larger."""
    scale = max_norm / maximum(norm, max_norm)  # 1 where the norm is small enough
    return gradient * scale.astype(gradient.dtype)


def _as_tensors(function_name: str, gradients: Sequence[Tensor]) -> list[Tensor]:
    """Return gradients as a list of tensors.

    Raises:
        ArgumentError: they are not a list, or one of them is neither a tensor nor an array.
    """
    return [
        as_tensor(g, function_name, "a gradient")
        for g in as_list(gradients, function_name, "gradients")
    ]


def _as_float32(x: Tensor) -> Tensor:
    """Cast halves to float32: squares of float16 overflow above 255, and those of bfloat16 have few digits."""
    return x.astype(float32) if x.dtype in HALVES else x


def _check_limit(function_name: str, name: str, value: float) -> float:
    """Return the argument called `name` of a function; raise unless it is positive."""
    number = check_real(value, function_name, name)
    if number <= 0:
        raise ArgumentValueError(f"{function_name}: {name}={short_repr(value)} must be positive")
    return number
