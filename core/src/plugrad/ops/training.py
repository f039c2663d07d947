"""Functions that training loops use, made of other ops."""

from collections.abc import Sequence

from plugrad.errors import ArgumentValueError, DTypeError, ShapeError
from plugrad.kernels import binary
from plugrad.ops.arguments import as_tensor, promoted
from plugrad.ops.attributes import listed, real, whole
from plugrad.ops.binary import where
from plugrad.ops.random import Generator, default
from plugrad.tensor.tensor import Tensor, TensorLike
from plugrad.types.shapes import stretches


def moving_average(
    average: TensorLike, x: TensorLike, decay: float | Tensor, *, step: int | None = None
) -> Tensor:
    """The average moved towards x: ``decay * average + (1 - decay) * x``.

    >>> plugrad.moving_average([1.0], [2.0], decay=0.75)
    tensor([1.25], dtype=float32)

    Args:
        average: the average so far.
        x: the new value, in the shape of the average.
        decay: how much of the average stays, between 0 and 1: a number, or a tensor.
        step: counts from 1; if given, the update is divided by ``1 - decay**step``, which removes
            the bias of an average that starts at 0 (Kingma and Ba, 2014).

    Raises:
        ShapeError: the shapes differ.
        ArgumentValueError: `decay` or `step` is out of range.
    """
    if not isinstance(decay, Tensor):  # the values of a tensor are its own business
        decay = real(decay, "moving_average", "decay", least=0, most=1)
    if step is not None:
        step = whole(step, "moving_average", "step", least=1, most=2**53)
    average, x = promoted(average, x, binary.divide, "moving_average")
    if average.shape != x.shape:
        raise ShapeError(
            f"moving_average: average has shape {average.shape} and x {x.shape}; they must be equal"
        )
    update = (x - average) * (1 - decay)
    if step is not None:
        update = update / (1 - decay**step) if decay < 1 else update
    return average + update


def dropout(
    x: TensorLike,
    rate: float,
    noise_shape: Sequence[int | None] | None = None,
    *,
    seed: int | Generator | None = None,
) -> Tensor:
    """The tensor with a part of its elements set to 0 at random, and the others divided by ``1 - rate``.

    >>> x = plugrad.dropout(plugrad.ones((1000,)), rate=0.25, seed=0)
    >>> sorted(set(plugrad.round(3 * x).tolist()))  # 0 or 1 / 0.75
    [0.0, 4.0]

    So the expected value stays the same (Srivastava and others, 2014).

    Args:
        x: a floating tensor.
        rate: the part that is set to 0: at least 0, less than 1. With 0 the tensor itself is returned.
        noise_shape: which elements share their fate: chance decides in this shape, which is then
            broadcast to x's; None stands for x's size, and for x's shape.
        seed: a whole number, or the generator to draw from; by default that of `plugrad.random`.

    Raises:
        ArgumentValueError: the rate is out of range.
        DTypeError: the tensor is not floating.
        ShapeError: `noise_shape` does not broadcast to x's shape.
    """
    x = as_tensor(x, "dropout")
    if not x.dtype.is_inexact:
        raise DTypeError(f"dropout: x is {x.dtype}; it must be floating, because it is scaled")
    rate = real(rate, "dropout", "rate")
    if not 0 <= rate < 1:
        raise ArgumentValueError(f"dropout: rate={rate} must be at least 0 and less than 1")
    wanted = x.shape if noise_shape is None else listed(noise_shape, "dropout", "noise_shape")
    missing = x.ndim - len(wanted)
    shape = tuple(
        size if n is None else whole(n, "dropout", "noise_shape", least=0)
        for n, size in zip(wanted, x.shape[missing:], strict=False)
    )
    if missing < 0 or not stretches(shape, x.shape):
        raise ShapeError(
            f"dropout: noise_shape={noise_shape} must broadcast to the shape of x, which is {x.shape}"
        )
    if rate == 0:
        return x
    if not isinstance(seed, Generator):
        seed = default if seed is None else Generator(seed)
    kept = seed.bernoulli(shape, 1 - rate, device=x.backend)
    return where(kept, x / (1 - rate), 0)
