"""Functions that read and write images as bytes. Their namespace is `plugrad.image`."""

from __future__ import annotations

from os import PathLike, fsencode
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from plugrad.discovery.selection import active_backend
from plugrad.errors import ArgumentError, ArgumentValueError, DamagedFile, DTypeError, short_repr
from plugrad.interruptions import is_interruption
from plugrad.kernels import movement, pixels as kernels
from plugrad.ops.arguments import as_supported_dtype, as_tensor, host_array
from plugrad.ops.attributes import check_integer, check_real
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import int32, uint8

if TYPE_CHECKING:
    from typing import IO, TypeAlias

    from numpy.typing import NDArray

    from plugrad.tensor.tensor import TensorLike

    FileLike: TypeAlias = str | PathLike[str] | IO[bytes]
    """A path, or a file that is open in binary mode."""


def from_pixels(pixels: TensorLike, num_channels: int = 3) -> Tensor:
    """An image given as bytes, as int32 of shape (height, width, num_channels), from 0 to 255.

    >>> plugrad.image.from_pixels(np.array([[[255, 128, 0]]], np.uint8))
    tensor([[[255, 128,   0]]], dtype=int32)

    Args:
        pixels: bytes of shape (height, width, channels): an array, a tensor, or an image of Pillow.
            There are 3 channels for red, green and blue, 4 with opacity, and 1, or no channel axis,
            if the image is gray.
        num_channels: how many of red, green, blue and opacity to keep, from 1 to 4. Red, green and
            blue of a gray image are the same; opacity is 255 if the image has none.

    Raises:
        ArgumentError: `num_channels` is not an integer.
        ArgumentValueError: `num_channels` is not between 1 and 4.
        DTypeError: the pixels are neither uint8 nor int32.
        ShapeError: they have another number of axes or channels.
    """
    num_channels = check_integer(num_channels, "from_pixels", "num_channels", least=1, most=4)
    if not isinstance(pixels, Tensor):
        pixels = host_array(pixels, "from_pixels", "pixels")
        if pixels.dtype == uint8 and uint8 not in active_backend().dtypes():
            pixels = pixels.astype(int32)  # nothing is lost, and the result is int32
    image = as_tensor(pixels, "from_pixels", "pixels")
    if image.dtype not in kernels.from_pixels.accepted_dtypes:
        raise DTypeError(
            f"from_pixels: pixels are {image.dtype}; they must be uint8 or int32, as after astype('uint8')"
        )
    if image.ndim == 2:
        image = movement.expand_dims(image, dim=2)
    return kernels.from_pixels(image, num_channels=num_channels)


def to_pixels(image: TensorLike, *, alpha: float = 1.0) -> NDArray[np.uint8]:
    """An image as a NumPy array of bytes of shape (height, width, 4): red, green, blue and opacity.

    >>> plugrad.image.to_pixels([[[1.0, 0.5, 0.0]]])
    array([[[255, 128,   0, 255]]], dtype=uint8)

    Args:
        image: of shape (height, width), or (height, width, channels) with 1, 3 or 4 channels:
            floats from 0 to 1, or integers from 0 to 255. One channel is gray.
        alpha: the opacity, from 0 to 1, of an image without a channel for it.

    Raises:
        ShapeError: the image has another number of axes or channels.
        DTypeError: its elements are neither floats nor integers.
        ArgumentError: `alpha` is not a number.
        ArgumentValueError: a pixel or `alpha` is out of range.
    """
    alpha = check_real(alpha, "to_pixels", "alpha", least=0, most=1)
    values = as_supported_dtype(image, kernels.draw, "to_pixels", "image")
    return kernels.draw(values, alpha=alpha).numpy().astype(np.uint8)


def read_png(file: FileLike, num_channels: int = 3) -> Tensor:
    """The image in a PNG file as int32 of shape (height, width, num_channels), from 0 to 255.

    >>> from io import BytesIO
    >>> file = BytesIO()
    >>> plugrad.image.write_png(file, [[1.0, 0.0]])
    >>> plugrad.image.read_png(file, num_channels=1)[:, :, 0]
    tensor([[255,   0]], dtype=int32)

    Pillow reads the file: ``pip install "plugrad[image]"``.

    Args:
        file: a path, or a file that is open for reading in binary mode.
        num_channels: 1 for gray, 3 for red, green and blue, 4 for these and opacity; colours are
            converted.

    Raises:
        ArgumentError: `num_channels` is not an integer.
        ArgumentValueError: `num_channels` is not 1, 3 or 4, or a gray pixel has more than 8 bits.
        ModuleNotFoundError: Pillow is not installed.
        DamagedFile: the file is damaged, or has more pixels than Pillow takes for harmless.
        OSError: there is no such file, it is cut off, or it is not a PNG file.
    """
    modes = {1: "L", 3: "RGB", 4: "RGBA"}
    num_channels = check_integer(num_channels, "read_png", "num_channels")
    if num_channels not in modes:
        raise ArgumentValueError(
            f"read_png: num_channels={short_repr(num_channels)} must be 1, 3 or 4"
        )
    _check_file(file, "read_png")
    pillow = _import_pillow("read_png")
    try:
        with pillow.open(file, formats=("PNG",)) as image:
            mode = image.mode
            pixels = np.asarray(image.convert(modes[num_channels]))
    except (OSError, MemoryError):
        raise
    except Exception as error:  # Pillow has no class for what may be wrong with a file
        if is_interruption(error):
            raise
        raise DamagedFile(
            f"read_png: file={short_repr(file)} is damaged, or too large: {error}"
        ) from error
    if mode.startswith("I"):
        raise ArgumentValueError(
            f"read_png: {file} has gray pixels of 16 bits; plugrad reads 8. Open it with Pillow and pass "
            "the array to asarray"
        )
    return from_pixels(pixels, num_channels)


def write_png(file: FileLike, image: TensorLike) -> None:
    """Write an image to a PNG file.

    >>> from io import BytesIO
    >>> plugrad.image.write_png(BytesIO(), plugrad.zeros((2, 3)))

    Pillow writes the file: ``pip install "plugrad[image]"``.

    Args:
        file: a path, or a file that is open for writing in binary mode.
        image: as for `to_pixels`; the file has opacity if the image has 4 channels.

    Raises:
        ShapeError, DTypeError, ArgumentValueError: the image is not one; see `to_pixels`.
        ModuleNotFoundError: Pillow is not installed.
        OSError: the file cannot be written.
    """
    _check_file(file, "write_png")
    pillow = _import_pillow("write_png")
    values = as_tensor(image, "write_png", "image")
    kept = 4 if values.shape[2:] == (4,) else 3
    pixels = np.ascontiguousarray(to_pixels(values)[..., :kept])
    pillow.fromarray(pixels).save(file, format="PNG")


def _check_file(file: object, op: str) -> None:
    """Raise unless an argument is a path or an open file."""
    if not isinstance(file, str | bytes | PathLike) and not hasattr(file, "read"):
        raise ArgumentError(f"{op}: file={short_repr(file)} must be a path or an open file")
    if isinstance(file, str | bytes | PathLike):
        try:
            name = fsencode(cast("str", file))
        except UnicodeEncodeError:  # half of a surrogate pair
            name = b"\0"
        if b"\0" in name:
            raise ArgumentValueError(f"{op}: file={short_repr(file)} is not the name of a file")


def _import_pillow(op: str) -> Any:
    """Return Pillow's module, which is imported only when it is needed."""
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f'{op} needs Pillow, which is not installed; run: pip install "plugrad[image]"'
        ) from None
    return Image
