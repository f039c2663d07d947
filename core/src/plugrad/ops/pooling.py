"""Functions that summarize windows of images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from plugrad.errors import ShapeError
from plugrad.kernels import movement, pooling, pooling3d
from plugrad.ops.arguments import check_floats, coerced
from plugrad.ops.attributes import chosen, flag, is_several, members
from plugrad.types.windows import padding_of, sizes_of

if TYPE_CHECKING:
    from plugrad.contract.kernel import Kernel
    from plugrad.kernels.pooling import PoolingType
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.specs import ShapeLike
    from plugrad.types.windows import PaddingLike, Rounding

_UNDILATED: Final[dict[tuple[PoolingType, int], Kernel[..., Tensor]]] = {
    ("max", 2): pooling.max_pool,
    ("avg", 2): pooling.avg_pool,
    ("max", 3): pooling3d.max_pool3d,
    ("avg", 3): pooling3d.avg_pool3d,
}


def max_pool(
    x: TensorLike,
    filter_size: ShapeLike,
    strides: ShapeLike | None = None,
    pad: PaddingLike = "valid",
    *,
    dim_rounding_mode: Rounding = None,
) -> Tensor:
    """The largest element of each window of images.

    >>> plugrad.max_pool(plugrad.reshape(plugrad.arange(16.0), (1, 4, 4, 1)), 2)[0, :, :, 0]
    tensor([[ 5.,  7.],
            [13., 15.]], dtype=float32)

    The result has the axes and the dtype of x; its height and width are the numbers of windows.

    Args:
        x: images of shape (batch, height, width, channels); the batch axis may be absent.
        filter_size: the size of a window, one number or (height, width).
        strides: the distance between neighbouring windows, one number or (vertical, horizontal); by
            default the size of a window.
        pad: "valid", "same", a number of cells, or ((top, bottom), (left, right)); padding cells
            are never the largest.
        dim_rounding_mode: what to do with a last, partial stride: "floor" (the default), "ceil" or
            "round". A window that would start beyond the image is dropped in any case.

    Raises:
        ShapeError: x does not have 3 or 4 axes, or a window does not fit, or covers only padding.
        DTypeError: x holds bools, complex numbers or strings.
        ArgumentValueError: `filter_size`, `strides`, `pad` or `dim_rounding_mode` is invalid.
    """
    return pooled(pooling.max_pool, "max_pool", 2, x, filter_size, strides, pad, dim_rounding_mode)


def avg_pool(
    x: TensorLike,
    filter_size: ShapeLike,
    strides: ShapeLike | None = None,
    pad: PaddingLike = "valid",
    *,
    dim_rounding_mode: Rounding = None,
) -> Tensor:
    """The average of each window of images, over the cells that are not padding.

    >>> plugrad.avg_pool(plugrad.reshape(plugrad.arange(16.0), (1, 4, 4, 1)), 2)[0, :, :, 0]
    tensor([[ 2.5,  4.5],
            [10.5, 12.5]], dtype=float32)

    Shape, dtype and arguments are as for `max_pool`. A nested list of integers becomes float32.

    Raises:
        DTypeError: x is a tensor or an array that does not hold floats.
        ShapeError, ArgumentValueError: as for `max_pool`.
    """
    check_floats("avg_pool", x=x)
    return pooled(pooling.avg_pool, "avg_pool", 2, x, filter_size, strides, pad, dim_rounding_mode)


def max_pool_with_argmax(
    x: TensorLike,
    filter_size: ShapeLike,
    strides: ShapeLike | None = None,
    pad: PaddingLike = "valid",
    *,
    include_batch_in_index: bool = False,
) -> tuple[Tensor, Tensor]:
    """The largest element of each window of images, and its position as int32.

    >>> x = plugrad.reshape(plugrad.arange(16.0), (1, 4, 4, 1))
    >>> largest, positions = plugrad.max_pool_with_argmax(x, 2)
    >>> positions[0, :, :, 0]
    tensor([[ 5,  7],
            [13, 15]], dtype=int32)

    The position of the element at (row, column, channel) is ``(row * width + column) * channels +
    channel`` in its image. Among equal elements the first one in row-major order counts. Both
    results have the shape that `max_pool` gives.

    Args:
        x: images; this and the next three arguments are as for `max_pool`.
        filter_size: the size of a window.
        strides: the distance between neighbouring windows.
        pad: the padding.
        include_batch_in_index: whether positions also count the elements of all images before.

    Raises:
        ShapeError: x does not have 3 or 4 axes, or a window does not fit, or covers only padding.
        DTypeError: x holds bools, complex numbers or strings.
        ArgumentError: `include_batch_in_index` is not a bool.
        ArgumentValueError: `filter_size`, `strides` or `pad` is invalid.
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
    window_shape: ShapeLike,
    pooling_type: PoolingType,
    pad: PaddingLike = "valid",
    dilations: ShapeLike = 1,
    strides: ShapeLike = 1,
    *,
    dim_rounding_mode: Rounding = None,
) -> Tensor:
    """The largest element or the average of each window of images; the cells of a window may lie apart.

    >>> x = plugrad.reshape(plugrad.arange(16.0), (1, 4, 4, 1))
    >>> plugrad.pool(x, 2, "max", dilations=2)[0, :, :, 0]
    tensor([[10., 11.],
            [14., 15.]], dtype=float32)

    The result has the axes and the dtype of the input; its spatial sizes are the numbers of windows.

    Args:
        input: images of shape (batch, spatial axes …, channels); the batch axis may be absent.
        window_shape: the size of a window, one number for each spatial axis; a single number is for
            images with a height and a width.
        pooling_type: "max" or "avg".
        pad: "valid", "same", a number of cells, or a pair (before, after) for each spatial axis;
            padding cells do not count.
        dilations: the distance between neighbouring cells of a window.
        strides: the distance between neighbouring windows.
        dim_rounding_mode: as for `max_pool`.

    Raises:
        DTypeError: the input holds bools, complex numbers or strings, or is a tensor or an array of
            integers to average.
        ShapeError: the input has another number of axes, or a window does not fit, or covers only
            padding.
        ArgumentValueError: another argument is invalid.
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
    filter_size: ShapeLike,
    strides: ShapeLike | None,
    pad: PaddingLike,
    rounding: Rounding,
) -> Tensor:
    """Return what a pooling kernel makes of images that have `axes` spatial axes."""
    images = coerced(x, kernel, op)
    window = window_arguments(op, axes, filter_size, strides, pad, rounding)
    y = kernel(with_batch(images, axes, op), **window, dim_rounding_mode=rounding)
    return without_batch(y, images)


def window_arguments(
    op: str,
    axes: int,
    filter_size: ShapeLike,
    strides: ShapeLike | None,
    pad: PaddingLike,
    rounding: Rounding = None,
) -> dict[str, Any]:
    """Return the attributes that all pooling kernels have."""
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
