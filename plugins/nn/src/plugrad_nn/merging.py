"""Layers that make one tensor of several, for graphs of layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, cast

import plugrad
from plugrad.extend import ArgumentError
from plugrad_nn.arguments import check_integer
from plugrad_nn.layer import INFERENCE, Layer, Mode

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad import Tensor
    from plugrad_nn.parameters import Params


@dataclass(frozen=True, repr=False)
class _Merge(Layer):
    """A layer that combines its inputs by a function of two."""

    function: ClassVar[Callable[[Any, Any], Tensor]]

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return one tensor, of the shape to which all broadcast."""
        return reduce(type(self).function, check_several(self, x))


def check_several(layer: Layer, x: Any) -> list[Tensor]:
    """Return the inputs of a merging layer as tensors.

    Raises:
        ArgumentError: they are not a list or tuple of two or more.
    """
    if not isinstance(x, Sequence) or len(x) < 2:  # pyright: ignore[reportUnknownArgumentType]
        raise ArgumentError(
            f"{type(layer).__name__}: x must be a list of two tensors or more, and not {type(x).__name__}"
        )
    return [plugrad.asarray(part) for part in cast("Sequence[Any]", x)]


@dataclass(frozen=True, repr=False)
class Add(_Merge):
    """The sum of several tensors, whose shapes broadcast.

    >>> nn.Add()({}, [plugrad.ones((2, 3)), plugrad.ones((2, 3))]).tolist()[0]
    [2.0, 2.0, 2.0]

    Raises:
        ArgumentError: in a call, the input is not a list of two tensors or more.
        ShapeError: in a call, their shapes do not broadcast.
    """

    function = staticmethod(plugrad.add)


@dataclass(frozen=True, repr=False)
class Subtract(_Merge):
    """The first tensor minus the others. Errors are as for `Add`.

    >>> nn.Subtract()({}, [plugrad.ones((1, 2)), plugrad.ones((1, 2))])
    tensor([[0., 0.]], dtype=float32)
    """

    function = staticmethod(plugrad.subtract)


@dataclass(frozen=True, repr=False)
class Multiply(_Merge):
    """The product of several tensors, element by element. Errors are as for `Add`.

    >>> nn.Multiply()({}, [plugrad.ones((1, 2)) * 3, plugrad.ones((1, 2)) * 2])
    tensor([[6., 6.]], dtype=float32)
    """

    function = staticmethod(plugrad.multiply)


@dataclass(frozen=True, repr=False)
class Maximum(_Merge):
    """The largest of several tensors, element by element. Errors are as for `Add`.

    >>> nn.Maximum()({}, [plugrad.asarray([[1.0, 5.0]]), plugrad.asarray([[3.0, 2.0]])])
    tensor([[3., 5.]], dtype=float32)
    """

    function = staticmethod(plugrad.maximum)


@dataclass(frozen=True, repr=False)
class Minimum(_Merge):
    """The smallest of several tensors, element by element. Errors are as for `Add`.

    >>> nn.Minimum()({}, [plugrad.asarray([[1.0, 5.0]]), plugrad.asarray([[3.0, 2.0]])])
    tensor([[1., 2.]], dtype=float32)
    """

    function = staticmethod(plugrad.minimum)


@dataclass(frozen=True, repr=False)
class Average(_Merge):
    """The average of several tensors, element by element. Errors are as for `Add`.

    >>> nn.Average()({}, [plugrad.asarray([[1.0, 5.0]]), plugrad.asarray([[3.0, 2.0]])])
    tensor([[2. , 3.5]], dtype=float32)
    """

    function = staticmethod(plugrad.add)

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return one tensor, of the shape to which all broadcast."""
        return super().__call__(params, x, mode) / len(x)


@dataclass(frozen=True, repr=False)
class Concatenate(Layer):
    """Several tensors, concatenated along an axis.

    >>> nn.Concatenate()({}, [plugrad.ones((2, 3)), plugrad.ones((2, 4))]).shape
    (2, 7)

    Args:
        axis: the axis, counted with that of the batch.

    Raises:
        ArgumentError: the axis is not an integer, or in a call, the input is not a list of two tensors or more.
        ShapeError: in a call, the shapes differ on another axis.
    """

    axis: int = -1

    def __post_init__(self) -> None:
        check_integer("Concatenate", "axis", self.axis, -64)

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the concatenation of the tensors along the axis."""
        return plugrad.concat(check_several(self, x), axis=self.axis)


@dataclass(frozen=True, repr=False)
class Dot(Layer):
    """The product of two tensors, summed along one axis of each.

    >>> nn.Dot()({}, [plugrad.ones((5, 3)), plugrad.ones((5, 3))]).shape
    (5, 1)

    Args:
        axes: the axis of both, or (first, second), counted with that of the batch, which is axis 0 and remains.
        normalize: whether both are divided by their norms along the axis, which gives the cosine.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above, or in a call, the input is not a list of
            two tensors.
        ShapeError: in a call, the sizes of the axes differ.
    """

    axes: int | tuple[int, int] = -1
    normalize: bool = False

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the product, of shape (batch, the first's other axes …, the second's …), or (batch, 1)."""
        parts = check_several(self, x)
        if len(parts) != 2:
            raise ArgumentError(f"Dot: x must be a list of two tensors, and not of {len(parts)}")
        axes = self.axes if isinstance(self.axes, tuple) else (self.axes, self.axes)
        moved = [plugrad.moveaxis(part, axis, -1) for part, axis in zip(parts, axes, strict=True)]
        if self.normalize:
            moved = [
                part
                / plugrad.maximum(plugrad.linalg.vector_norm(part, axis=-1, keepdims=True), 1e-12)
                for part in moved
            ]
        first, second = (
            plugrad.reshape(part, (part.shape[0], math.prod(part.shape[1:-1]), part.shape[-1]))
            for part in moved
        )
        y = first @ plugrad.matrix_transpose(second)
        others = (*moved[0].shape[1:-1], *moved[1].shape[1:-1])
        return plugrad.reshape(y, (y.shape[0], *(others or (1,))))
