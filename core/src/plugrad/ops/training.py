"""Functions that training loops use, made of other ops."""

from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.kernels import binary
from plugrad.ops.arguments import promoted
from plugrad.tensor import Tensor, TensorLike


def moving_average(
    average: TensorLike, x: TensorLike, decay: float, *, step: int | None = None
) -> Tensor:
    """The average moved towards x: ``decay * average + (1 - decay) * x``.

    >>> plugrad.moving_average([1.0], [2.0], decay=0.75)
    tensor([1.25], dtype=float32)

    Args:
        average: the average so far.
        x: the new value, in the shape of the average.
        decay: how much of the average stays, between 0 and 1.
        step: counts from 1; if given, the update is divided by ``1 - decay**step``, which removes
            the bias of an average that starts at 0 (Kingma and Ba, 2014).

    Raises:
        ShapeError: the shapes differ.
        ArgumentValueError: `decay` or `step` is out of range.
    """
    if not 0 <= decay <= 1 or (step is not None and step < 1):
        raise ArgumentValueError(
            f"moving_average: decay={decay} must be between 0 and 1, and step={step} at least 1"
        )
    average, x = promoted(average, x, binary.divide, "moving_average")
    if average.shape != x.shape:
        raise ShapeError(
            f"moving_average: average has shape {average.shape} and x {x.shape}; they must be equal"
        )
    update = (x - average) * (1 - decay)
    if step is not None:
        update = update / (1 - decay**step) if decay < 1 else update
    return average + update
