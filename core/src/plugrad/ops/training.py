"""Functions for training loops, composed of other ops."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from plugrad.engine.results import alias
from plugrad.errors import ArgumentValueError, DTypeError, ShapeError
from plugrad.kernels import binary, random
from plugrad.ops.arguments import as_tensor, promote_operands
from plugrad.ops.attributes import as_list, check_integer, check_real
from plugrad.ops.binary import where
from plugrad.ops.random import Generator, default, draw_state
from plugrad.tensor.tensor import Tensor
from plugrad.types.arguments import explain_wrong_calls
from plugrad.types.shapes import broadcasts_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.tensor.tensor import TensorLike

SeedLike: TypeAlias = int | Generator | None
"""A seed, or the generator to draw from; None means the generator of `plugrad.random`."""


def moving_average(
    average: TensorLike,
    x: TensorLike,
    decay: float | Tensor,
    *,
    step: int | Tensor | None = None,
) -> Tensor:
    """The moving average after one more value x: ``decay * average + (1 - decay) * x``.

    >>> plugrad.moving_average([1.0], [2.0], decay=0.75)
    tensor([1.25], dtype=float32)

    The dtype is the one to which `average` and x promote; integers and bools become float32.

    Args:
        average: the average so far.
        x: the new value, in the shape of the average.
        decay: the fraction of the average that remains, between 0 and 1: a number, or a tensor,
            whose values are not checked.
        step: the number of this value, from 1 on: an integer, or a tensor, whose values are not
            checked. If it is given, the update is divided by ``1 - decay**step``, which removes the
            bias of an average that starts at 0 (Kingma and Ba, 2014).

    Raises:
        ShapeError: the shapes differ.
        DTypeError: an argument holds strings.
        ArgumentError: `decay` is neither a number nor a tensor, or `step` neither an integer nor a tensor.
        ArgumentValueError: `decay` or `step` is out of range.
    """
    if not isinstance(decay, Tensor):
        decay = check_real(decay, "moving_average", "decay", least=0, most=1)
    if step is not None and not isinstance(step, Tensor):
        step = check_integer(step, "moving_average", "step", least=1, most=2**53)
    average, x = promote_operands(average, x, binary.divide, "moving_average")
    if average.shape != x.shape:
        raise ShapeError(
            f"moving_average: average has shape {average.shape} and x {x.shape}; they must be equal"
        )
    update = (x - average) * (1 - decay)
    if step is not None:
        divisor = 1 - decay ** (step.astype(update.dtype) if isinstance(step, Tensor) else step)
        # With a decay of 1 nothing is added, and nothing is to be corrected.
        if isinstance(divisor, Tensor):
            update = update / where(divisor == 0, 1, divisor)
        elif divisor:
            update = update / divisor
    return average + update


@explain_wrong_calls
def dropout(
    x: TensorLike,
    rate: float,
    noise_shape: Sequence[int | None] | None = None,
    *,
    seed: SeedLike = None,
) -> Tensor:
    """The tensor with random elements set to 0, and the others divided by ``1 - rate`` (Srivastava et al., 2014).

    >>> x = plugrad.dropout(plugrad.ones((1000,)), rate=0.25, seed=0)
    >>> sorted(set(plugrad.round(3 * x).tolist()))  # 0 or 1 / 0.75
    [0.0, 4.0]

    The expected value of each element remains the same. So do shape and dtype. The gradient draws the same random
    numbers again, so that nothing but their position is kept for the backward pass.

    Args:
        x: a floating or complex tensor.
        rate: the probability with which an element is set to 0: at least 0 and less than 1. With 0
            all keep their values.
        noise_shape: the shape in which zeros are drawn; it is broadcast to that of x, so that
            elements along an axis of size 1 are kept or set to 0 together. None is the shape of x,
            and a None in it the size of x.
        seed: an integer, or the generator to draw from; by default the one of `plugrad.random`.

    Raises:
        ArgumentError: the rate, the seed or a size is not a number.
        ArgumentValueError: the rate is out of range, or the seed or a size is negative.
        DTypeError: the tensor is neither floating nor complex.
        ShapeError: `noise_shape` does not broadcast to the shape of x.
    """
    x = as_tensor(x, "dropout")
    if not x.dtype.is_inexact:
        raise DTypeError(f"dropout: x is {x.dtype}; it must be floating, because it is scaled")
    rate = check_real(rate, "dropout", "rate")
    if not 0 <= rate < 1:
        raise ArgumentValueError(f"dropout: rate={rate} must be at least 0 and less than 1")
    wanted = x.shape if noise_shape is None else as_list(noise_shape, "dropout", "noise_shape")
    missing = x.ndim - len(wanted)
    shape = tuple(
        size if n is None else check_integer(n, "dropout", "noise_shape", least=0)
        for n, size in zip(wanted, x.shape[missing:], strict=False)
    )
    if missing < 0 or not broadcasts_to(shape, x.shape):
        raise ShapeError(
            f"dropout: noise_shape={noise_shape} must broadcast to the shape of x, which is {x.shape}"
        )
    if rate == 0:
        return alias(x)
    if not isinstance(seed, Generator):
        seed = default if seed is None else Generator(seed)
    state = draw_state(seed, shape, x.backend)
    return random.dropout(x, state, rate=rate, noise_shape=shape)
