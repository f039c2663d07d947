"""Functions that change the size of images. Their namespace is `plugrad.image`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.kernels import movement, resize
from plugrad.ops.arguments import as_supported_dtype
from plugrad.ops.attributes import check_flag
from plugrad.types.windows import as_sizes

if TYPE_CHECKING:
    from plugrad.contract.kernel import Kernel
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.specs import ShapeLike


def resize_bilinear(
    images: TensorLike,
    size: ShapeLike,
    *,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Tensor:
    """The images in another size, interpolated between the four pixels around each point.

    >>> image = plugrad.asarray([[[0.0], [6.0]]])
    >>> plugrad.image.resize_bilinear(image, (1, 4))[:, :, 0]
    tensor([[0., 3., 6., 6.]], dtype=float32)
    >>> plugrad.image.resize_bilinear(image, (1, 4), align_corners=True)[:, :, 0]
    tensor([[0., 2., 4., 6.]], dtype=float32)
    >>> plugrad.image.resize_bilinear(image, (1, 4), half_pixel_centers=True)[:, :, 0]
    tensor([[0. , 1.5, 4.5, 6. ]], dtype=float32)

    The result has the axes of the images and their dtype; integers become float32.

    Args:
        images: of shape (batch, height, width, channels); the batch axis may be absent.
        size: the new size, one number or (height, width).
        align_corners: whether the corner pixels of the result are those of the images.
        half_pixel_centers: whether a pixel is at its centre, and not at its upper left corner; this
            is how TensorFlow 2 and most other programs resize.

    Raises:
        ShapeError: the images do not have 3 or 4 axes, or have no pixels.
        ArgumentError: a flag is not a bool.
        ArgumentValueError: the size is not one or two positive integers, or both flags are True.
        DTypeError: the images are neither floats nor integers.
    """
    return _run_resize(
        resize.resize_bilinear, "resize_bilinear", images, size, align_corners, half_pixel_centers
    )


def resize_nearest_neighbor(
    images: TensorLike,
    size: ShapeLike,
    *,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Tensor:
    """The images in another size, each pixel of which is the nearest one of the images.

    >>> plugrad.image.resize_nearest_neighbor([[[1], [2]]], (1, 4))[:, :, 0]
    tensor([[1, 1, 2, 2]], dtype=int32)

    The result has the axes and the dtype of the images. Arguments are as for `resize_bilinear`.

    Raises:
        ShapeError, ArgumentError, ArgumentValueError, DTypeError: as for `resize_bilinear`.
    """
    return _run_resize(
        resize.resize_nearest_neighbor,
        "resize_nearest_neighbor",
        images,
        size,
        align_corners,
        half_pixel_centers,
    )


def _run_resize(
    kernel: Kernel[..., Tensor],
    op: str,
    images: TensorLike,
    size: ShapeLike,
    align_corners: bool,
    half_pixel_centers: bool,
) -> Tensor:
    """Check the arguments that both resize ops share, then run the kernel."""
    pixels = as_supported_dtype(images, kernel, op, "images")
    if pixels.ndim not in (3, 4):
        raise ShapeError(
            f"{op}: images must have 3 or 4 axes (batch, height, width, channels); the shape is {pixels.shape}"
        )
    align_corners = check_flag(align_corners, op, "align_corners")
    half_pixel_centers = check_flag(half_pixel_centers, op, "half_pixel_centers")
    if align_corners and half_pixel_centers:
        raise ArgumentValueError(
            f"{op}: align_corners=True and half_pixel_centers=True exclude each other; choose one"
        )
    is_single = pixels.ndim == 3
    y = kernel(
        movement.expand_dims(pixels, dim=0) if is_single else pixels,
        size=as_sizes(size, 2, f"{op}: size"),
        align_corners=align_corners,
        half_pixel_centers=half_pixel_centers,
    )
    return movement.reshape(y, shape=y.shape[1:]) if is_single else y
