"""The arguments of ops that slide windows over images: the window, the batch axis and the order of the axes."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from plugrad.engine.channels import channels_first, channels_last
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.kernels import movement
from plugrad.ops.attributes import check_choice
from plugrad.types.windows import (
    ROUNDING_FUNCTIONS,
    as_sizes,
    parse_padding,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.tensor.tensor import Tensor
    from plugrad.types.specs import Shape, ShapeLike
    from plugrad.types.windows import PaddingLike, Rounding, Window


def resolve_window(
    op: str,
    slide_window: Callable[..., Window],
    image_shape: Shape,
    window_size: Shape,
    strides: ShapeLike | None,
    padding: PaddingLike,
    dilations: ShapeLike,
    rounding: Rounding,
) -> Window:
    """Return the window over images (batch, spatial axes …, channels) that the arguments of an op describe.

    Its size is the default of its strides. `slide_window` is `sliding_window` or `pool_window`.

    Raises:
        ArgumentValueError: a value is not allowed.
        ShapeError: the window does not fit.
    """
    given = strides, padding, dilations, rounding
    is_plain = _CACHEABLE_TYPES.issuperset(
        map(type, given)
    )  # what programs mostly pass: a key of the cache
    return (_make_cached_window if is_plain else _make_window)(
        op, slide_window, image_shape, window_size, *given
    )


_CACHEABLE_TYPES: Final = frozenset({int, str, type(None)})
"""The types of arguments, or of their elements, for which windows are cached."""


def _make_window(
    op: str,
    slide_window: Callable[..., Window],
    image_shape: Shape,
    window_size: Shape,
    strides: ShapeLike | None,
    padding: PaddingLike,
    dilations: ShapeLike,
    rounding: Rounding,
) -> Window:
    """Return the window that the arguments of an op describe; errors name the op."""
    axes = len(window_size)
    if rounding is not None:
        check_choice(rounding, tuple(filter(None, ROUNDING_FUNCTIONS)), op, "dim_rounding_mode")
    steps = window_size if strides is None else as_sizes(strides, axes, f"{op}: strides")
    gaps = as_sizes(dilations, axes, f"{op}: dilations")
    cells = parse_padding(padding, axes, op, rounding)
    try:
        return slide_window(image_shape[1:-1], window_size, steps, cells, gaps, rounding)
    except (ArgumentValueError, ShapeError) as error:
        raise type(error)(f"{op}: {error}") from None


_make_cached_window: Final = lru_cache(maxsize=1024)(_make_window)
"""The function `_make_window` with a cache of its latest results."""


def check_spatial_axes(op: str, x: Tensor, spatial_rank: int) -> None:
    """Raise unless images have `spatial_rank` spatial axes, with or without a batch axis.

    Raises:
        ShapeError: they have another number of axes.
    """
    if x.ndim not in (spatial_rank + 1, spatial_rank + 2):
        names = {1: "width", 2: "height, width", 3: "depth, height, width"}
        raise ShapeError(
            f"{op}: x must have {spatial_rank + 1} or {spatial_rank + 2} axes (batch, "
            f"{names.get(spatial_rank, f'{spatial_rank} spatial axes')}, channels); the shape is {x.shape}"
        )


def to_kernel_layout(x: Tensor, spatial_rank: int, has_channels_first: bool) -> Tensor:
    """Return an op's images with a batch axis and the channels last, as kernels take them."""
    x = x if x.ndim == spatial_rank + 2 else movement.expand_dims(x, dim=0)
    return channels_last(x) if has_channels_first else x


def restore_layout(y: Tensor, x: Tensor, has_channels_first: bool) -> Tensor:
    """Return a kernel's images with the channels and the batch axis as in `x`, the images given to an op."""
    y = channels_first(y) if has_channels_first else y
    return y if y.ndim == x.ndim else movement.reshape(y, shape=y.shape[1:])
