"""What a shape rule reads and returns: a shape and a dtype without values. And how people write shapes and axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

from plugrad.types.dtype import DType

Shape = tuple[int, ...]
ShapeLike: TypeAlias = int | Sequence[int]
"""A shape as people write it; an integer is a shape of one axis."""
AxisLike: TypeAlias = int | Sequence[int] | None
"""An axis, several axes, or None for all axes. A negative axis counts from the end."""


class Spec(Protocol):
    """Anything with a shape and a dtype: all that a shape rule may look at. A tensor is one."""

    @property
    def shape(self) -> Shape:
        """The sizes of the axes."""
        ...

    @property
    def dtype(self) -> DType:
        """The element type."""
        ...


class Shaped(NamedTuple):
    """A shape and a dtype without values: what a shape rule returns."""

    shape: Shape
    dtype: DType
