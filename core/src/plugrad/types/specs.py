"""Shapes and dtypes without values, which shape rules read and return; also shapes as users write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from plugrad.types.dtype import DType

Shape = tuple[int, ...]
"""The sizes of the axes."""
ShapeLike: TypeAlias = int | Sequence[int]
"""A shape as users write it; an integer is a shape with one axis."""
AxisLike: TypeAlias = int | Sequence[int] | None
"""An axis, several axes, or None for all axes. A negative axis counts from the end."""


class Spec(Protocol):
    """Anything with a shape and a dtype, such as a tensor: all that shape inference may look at."""

    @property
    def shape(self) -> Shape:
        """The sizes of the axes."""
        ...

    @property
    def dtype(self) -> DType:
        """The element type."""
        ...


class Shaped(NamedTuple):
    """A shape and a dtype without values: the result of shape inference."""

    shape: Shape
    dtype: DType


class TensorArray:
    """An array of a tracer that holds a tensor of the level outside, which may be differentiated there."""

    __slots__ = ("tensor",)

    tensor: Any
