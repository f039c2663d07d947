"""Kernels that convert arrays of bytes, as cameras and screens use them, to tensors and back."""

from plugrad.contract.kernel import kernel
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.types.dtype import REAL, int32, uint8
from plugrad.types.specs import Shaped, Spec


@kernel("FromPixels", accepts=frozenset({uint8, int32}))
def from_pixels(pixels: Spec, *, num_channels: int) -> Spec:
    """Return the first `num_channels` of red, green, blue and opacity, as int32 from 0 to 255.

    Pixels of one channel are gray: red, green and blue are equal. Without a channel for it, the
    opacity is 255.

    Args:
        pixels: bytes (height, width, 1, 3 or 4 channels), in this order: red, green, blue, opacity.
        num_channels: how many channels the result has, 1 to 4.

    Returns:
        an int32 tensor (height, width, num_channels).
    """
    if len(pixels.shape) != 3 or pixels.shape[2] not in (1, 3, 4):
        raise ShapeError(
            f"pixels have shape (height, width, 1, 3 or 4 channels), not {pixels.shape}"
        )
    if not 1 <= num_channels <= 4:
        raise ArgumentValueError(f"num_channels={num_channels} must be between 1 and 4")
    return Shaped((*pixels.shape[:2], num_channels), int32)


@kernel("Draw", accepts=REAL)
def draw(image: Spec, *, alpha: float = 1.0) -> Spec:
    """Return red, green, blue and opacity, from 0 to 255, as int32, which every backend has.

    Floats range from 0 to 1 and integers from 0 to 255; values that do not round to a byte are
    errors. An image with one channel, or without an axis for channels, is gray. Without a channel
    for it, the opacity is `alpha`, from 0 to 1.

    Args:
        image: (height, width) or (height, width, 1, 3 or 4 channels).
        alpha: the opacity of an image that has no channel for it.

    Returns:
        an int32 tensor (height, width, 4).
    """
    rank = len(image.shape)
    if rank not in (2, 3) or (rank == 3 and image.shape[2] not in (1, 3, 4)):
        raise ShapeError(
            f"an image has shape (height, width) or (height, width, 1, 3 or 4 channels), not {image.shape}"
        )
    if not 0 <= alpha <= 1:
        raise ArgumentValueError(f"alpha={alpha} must be between 0 and 1")
    return Shaped((*image.shape[:2], 4), int32)
