"""Layers that bring raw inputs into the form that a model takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import plugrad
from plugrad.extend import DTypeError, ShapeError
from plugrad_nn.arguments import check_choice, check_flag, check_integer
from plugrad_nn.layer import INFERENCE, Layer, Mode

if TYPE_CHECKING:
    from plugrad import Tensor
    from plugrad_nn.parameters import Params


@dataclass(frozen=True, repr=False)
class Resizing(Layer):
    """Images, of shape (batch, height, width, channels), resized.

    >>> nn.Resizing(6, 8)({}, plugrad.ones((1, 4, 5, 2))).shape
    (1, 6, 8, 2)

    Args:
        height: the new height.
        width: the new width.
        interpolation: "bilinear" or "nearest".
        align_corners: whether the centres of the corners stay where they are, instead of the corners themselves.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        ShapeError: in a call, the input has another number of axes.
    """

    height: int
    width: int
    interpolation: str = "bilinear"
    align_corners: bool = False

    def __post_init__(self) -> None:
        check_integer("Resizing", "height", self.height, 1)
        check_integer("Resizing", "width", self.width, 1)
        check_choice("Resizing", "interpolation", self.interpolation, ("bilinear", "nearest"))
        check_flag("Resizing", "align_corners", self.align_corners)

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the images in the new size."""
        images = _check_images(self, x)
        resize = (
            plugrad.image.resize_bilinear
            if self.interpolation == "bilinear"
            else plugrad.image.resize_nearest_neighbor
        )
        return resize(
            images,
            (self.height, self.width),
            align_corners=self.align_corners,
            half_pixel_centers=not self.align_corners,
        )


@dataclass(frozen=True, repr=False)
class CenterCrop(Layer):
    """The centre crop of images, of shape (batch, height, width, channels).

    >>> x = plugrad.reshape(plugrad.arange(16.0), (1, 4, 4, 1))
    >>> nn.CenterCrop(2, 2)({}, x)[0, :, :, 0]
    tensor([[ 5.,  6.],
            [ 9., 10.]], dtype=float32)

    Of an odd number of rows or columns that are cut off, one more is at the end.

    Args:
        height: the height of the result.
        width: the width of the result.

    Raises:
        ArgumentError, ArgumentValueError: an argument is not a positive integer.
        ShapeError: in a call, the input has another number of axes, or is smaller.
    """

    height: int
    width: int

    def __post_init__(self) -> None:
        check_integer("CenterCrop", "height", self.height, 1)
        check_integer("CenterCrop", "width", self.width, 1)

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the middle of each image."""
        images = _check_images(self, x)
        rows, columns = images.shape[1] - self.height, images.shape[2] - self.width
        if min(rows, columns) < 0:
            raise ShapeError(
                f"CenterCrop: images of shape {images.shape} are smaller than {self.height} x {self.width}; enlarge "
                "them with Resizing"
            )
        top, left = rows // 2, columns // 2
        return images[:, top : top + self.height, left : left + self.width]


@dataclass(frozen=True, repr=False)
class CategoryEncoding(Layer):
    """Rows of integers encoded as one-hot, multi-hot or count vectors.

    >>> nn.CategoryEncoding(4)({}, plugrad.asarray([[0, 1, 1], [3, 3, 3]]))
    tensor([[1., 1., 0., 0.],
            [0., 0., 0., 1.]], dtype=float32)
    >>> nn.CategoryEncoding(4, "count")({}, plugrad.asarray([[0, 1, 1]]))
    tensor([[1., 2., 0., 0.]], dtype=float32)

    Args:
        num_tokens: the size of a vector. Integers outside of it do not count.
        output_mode: "multi_hot", "count", or "one_hot", which is for inputs of one integer each.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        DTypeError: in a call, the input does not hold integers.
        ShapeError: in a call, the input is not (batch, length); for "one_hot", (batch,) or (batch, 1).
    """

    num_tokens: int
    output_mode: str = "multi_hot"

    def __post_init__(self) -> None:
        check_integer("CategoryEncoding", "num_tokens", self.num_tokens, 1)
        modes = ("multi_hot", "count", "one_hot")
        check_choice("CategoryEncoding", "output_mode", self.output_mode, modes)

    def output_shape(self, params: Params, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the output shape for one example."""
        return (self.num_tokens,)

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return a vector for each row."""
        x = plugrad.asarray(x)
        if not plugrad.isdtype(x.dtype, "integral"):
            raise DTypeError(
                f"CategoryEncoding: x is {x.dtype}; it must hold integers, such as int32"
            )
        is_one = self.output_mode == "one_hot"
        rows = x[:, None] if is_one and x.ndim == 1 else x
        if rows.ndim != 2 or (is_one and rows.shape[1] != 1):
            wanted = "(batch,) or (batch, 1)" if is_one else "(batch, length)"
            raise ShapeError(f"CategoryEncoding: x has shape {x.shape}; it must be {wanted}")
        flags = plugrad.one_hot(rows, self.num_tokens)
        counts = plugrad.sum(flags, axis=1)
        return counts if self.output_mode == "count" else plugrad.minimum(counts, 1)


def _check_images(layer: Layer, x: Any) -> Tensor:
    """Return images as a tensor, checked.

    Raises:
        ShapeError: they are not (batch, height, width, channels).
    """
    images = plugrad.asarray(x)
    if images.ndim != 4:
        raise ShapeError(
            f"{type(layer).__name__}: x has shape {images.shape}; it must be (batch, height, width, channels)"
        )
    return images
