"""Functions that summarize windows of images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from plugrad.errors import ShapeError
from plugrad.kernels import movement, pooling, pooling3d
from plugrad.ops.arguments import check_floats, coerced
from plugrad.ops.attributes import chosen, flag, is_several, members
from plugrad.types.windows import padding_of, sizes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.contract.kernel import Kernel
    from plugrad.kernels.pooling import PoolingType
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.windows import Rounding

_UNDILATED: Final[dict[tuple[PoolingType, int], Kernel[..., Tensor]]] = {
    ("max", 2): pooling.max_pool,
    ("avg", 2): pooling.avg_pool,
    ("max", 3): pooling3d.max_pool3d,
    ("avg", 3): pooling3d.avg_pool3d,
}


def max_pool(
    x: TensorLike,
    filter_size: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    pad: Any = "valid",
    *,
    dim_rounding_mode: Rounding = None,
) -> Tensor:
    """The largest element of each window of images.

    >>> plugrad.max_pool(plugrad.reshape(plugrad.arange(16.0), (1, 4, 4, 1)), 2)[0, :, :, 0]
    tensor([[ 5.,  7.],
            [13., 15.]], dtype=float32)

    Args:
        x: images of shape (batch, height, width, channels); the batch axis may be absent.
        filter_size: the size of a window, one number or (height, width).
        strides: cells between two windows; by default windows lie side by side.
        pad: "valid", "same", a number of cells, or ((top, bottom), (left, right)); padding cells
            are never the largest.
        dim_rounding_mode: what to do with a last, partial stride: "floor" (the default), "ceil" or
            "round". A window that would start beyond the image is dropped nevertheless.

    Raises:
        ShapeError: x has not 3 or 4 axes, the window does not fit, or one sees only padding.
        ArgumentValueError: another argument makes no sense.
    """
    return pooled(pooling.max_pool, "max_pool", 2, x, filter_size, strides, pad, dim_rounding_mode)


def avg_pool(
    x: TensorLike,
    filter_size: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    pad: Any = "valid",
    *,
    dim_rounding_mode: Rounding = None,
) -> Tensor:
    """The average of each window of images, over the cells that are not padding; arguments as for `max_pool`.

    >>> plugrad.avg_pool(plugrad.reshape(plugrad.arange(16.0), (1, 4, 4, 1)), 2)[0, :, :, 0]
    tensor([[ 2.5,  4.5],
            [10.5, 12.5]], dtype=float32)

    Raises:
        DTypeError: x holds whole numbers.
        ShapeError, ArgumentValueError: as for `max_pool`.
    """
    check_floats("avg_pool", x=x)
    return pooled(pooling.avg_pool, "avg_pool", 2, x, filter_size, strides, pad, dim_rounding_mode)


def max_pool_with_argmax(
    x: TensorLike,
    filter_size: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    pad: Any = "valid",
    *,
    include_batch_in_index: bool = False,
) -> tuple[Tensor, Tensor]:
    """The largest element of each window of images, and where it is.

    >>> x = plugrad.reshape(plugrad.arange(16.0), (1, 4, 4, 1))
    >>> largest, positions = plugrad.max_pool_with_argmax(x, 2)
    >>> positions[0, :, :, 0]
    tensor([[ 5,  7],
            [13, 15]], dtype=int32)

    The position of the element at (row, column, channel) is ``(row * width + column) * channels +
    channel`` in its image, as int32. Of equal elements the first counts, row by row.

    Args:
        x: as for `max_pool`, like the next three.
        filter_size: the size of a window.
        strides: cells between two windows.
        pad: how many cells of padding.
        include_batch_in_index: whether positions count the elements of all images before.

    Raises:
        ShapeError: x has not 3 or 4 axes, the window does not fit, or one sees only padding.
        ArgumentValueError: another argument makes no sense.
    """
    op = "max_pool_with_argmax"
    images = coerced(x, pooling.max_pool_with_argmax, op)
    batch = with_batch(images, 2, op)
    y, positions = pooling.max_pool_with_argmax(
        batch,
        **window_arguments(op, 2, filter_size, strides, pad),
        include_batch_in_index=flag(include_batch_in_index, op, "include_batch_in_index"),
    )
    return without_batch(y, images), without_batch(positions, images)


def pool(
    input: TensorLike,
    window_shape: int | Sequence[int],
    pooling_type: PoolingType,
    pad: Any = "valid",
    dilations: int | Sequence[int] = 1,
    strides: int | Sequence[int] = 1,
    *,
    dim_rounding_mode: Rounding = None,
) -> Tensor:
    """The largest element or the average of windows whose cells may lie apart.

    >>> x = plugrad.reshape(plugrad.arange(16.0), (1, 4, 4, 1))
    >>> plugrad.pool(x, 2, "max", dilations=2)[0, :, :, 0]
    tensor([[10., 11.],
            [14., 15.]], dtype=float32)

    Args:
        input: images of shape (batch, spatial axes …, channels); the batch axis may be absent.
        window_shape: the size of a window, one number for each spatial axis; a lone number is for
            images with a height and a width.
        pooling_type: "max" or "avg".
        pad: "valid", "same", a number of cells, or a pair (before, after) for each spatial axis;
            padding cells do not count.
        dilations: cells between two cells of a window.
        strides: cells between two windows.
        dim_rounding_mode: as for `max_pool`.

    Raises:
        DTypeError: the input holds whole numbers, and averages are wanted.
        ShapeError: the input has another number of axes, the window does not fit, or one sees only
            padding.
        ArgumentValueError: another argument makes no sense.
    """
    chosen(pooling_type, ("max", "avg"), "pool", "pooling_type")
    axes = len(members(window_shape)) if is_several(window_shape) else 2
    window = window_arguments("pool", axes, window_shape, strides, pad, dim_rounding_mode)
    apart = sizes_of(dilations, axes, "pool: dilations")
    kernel = _UNDILATED.get((pooling_type, axes)) if set(apart) == {1} else None
    if pooling_type == "avg":
        check_floats("pool", input=input)
    images = coerced(input, _UNDILATED[pooling_type, 2], "pool", "input")
    batch = with_batch(images, axes, "pool")
    if kernel is not None:
        y = kernel(batch, **window, dim_rounding_mode=dim_rounding_mode)
    else:
        y = pooling.pool(
            batch,
            window_shape=window["filter_size"],
            pooling_type=pooling_type,
            pad=window["pad"],
            dilations=apart,
            strides=window["strides"],
            dim_rounding_mode=dim_rounding_mode,
        )
    return without_batch(y, images)


def pooled(
    kernel: Kernel[..., Tensor],
    op: str,
    axes: int,
    x: TensorLike,
    filter_size: int | Sequence[int],
    strides: int | Sequence[int] | None,
    pad: Any,
    rounding: Rounding,
) -> Tensor:
    """Run a pooling kernel on images that have so many spatial axes."""
    images = coerced(x, kernel, op)
    window = window_arguments(op, axes, filter_size, strides, pad, rounding)
    y = kernel(with_batch(images, axes, op), **window, dim_rounding_mode=rounding)
    return without_batch(y, images)


def window_arguments(
    op: str,
    axes: int,
    filter_size: int | Sequence[int],
    strides: int | Sequence[int] | None,
    pad: Any,
    rounding: Rounding = None,
) -> dict[str, Any]:
    """Return the attributes that all kernels have."""
    size = sizes_of(filter_size, axes, f"{op}: filter_size")
    return {
        "filter_size": size,
        "strides": size if strides is None else sizes_of(strides, axes, f"{op}: strides"),
        "pad": padding_of(pad, axes, op, rounding),
    }


def with_batch(images: Tensor, axes: int, op: str) -> Tensor:
    """Return images with a batch axis, which may be absent."""
    if images.ndim not in (axes + 1, axes + 2):
        names = {2: "height, width", 3: "depth, height, width"}.get(axes, f"{axes} spatial axes")
        raise ShapeError(
            f"{op}: x must have {axes + 1} or {axes + 2} axes (batch, {names}, channels); the "
            f"shape is {images.shape}"
        )
    return images if images.ndim == axes + 2 else movement.expand_dims(images, dim=0)


def without_batch(y: Tensor, images: Tensor) -> Tensor:
    """Return a result without a batch axis if the images had none."""
    return y if y.ndim == images.ndim else movement.reshape(y, shape=y.shape[1:])
