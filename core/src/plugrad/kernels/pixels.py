"""Kernels that lead from arrays of bytes, as cameras and screens have them, to tensors and back."""

from plugrad.contract.kernel import accepted, kernel
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.types.dtype import REAL, int32, uint8
from plugrad.types.specs import Shaped, Spec


@kernel("FromPixels", accepts=frozenset({uint8, int32}))
def from_pixels(pixels: Spec, *, num_channels: int) -> Spec:
    """Return the first channels of red, green, blue and opacity, from 0 to 255.

    Pixels of one channel are gray, which is red, green and blue at once; opacity is 255 if there is
    none.
    """
    accepted("FromPixels", pixels, frozenset({uint8, int32}))
    if len(pixels.shape) != 3 or pixels.shape[2] not in (1, 3, 4):
        raise ShapeError(
            f"FromPixels: pixels have shape (height, width, 1, 3 or 4 channels), not {pixels.shape}"
        )
    if not 1 <= num_channels <= 4:
        raise ArgumentValueError(f"FromPixels: num_channels={num_channels} must be between 1 and 4")
    return Shaped((*pixels.shape[:2], num_channels), int32)


@kernel("Draw", accepts=REAL)
def draw(image: Spec, *, alpha: float = 1.0) -> Spec:
    """Return red, green, blue and opacity, from 0 to 255, as int32, which every backend has.

    Floats go from 0 to 1, whole numbers from 0 to 255; values that do not round to a byte are
    errors. One channel, or no axis for it, is gray; `alpha` is the opacity, from 0 to 1, if the
    image has no channel for it.
    """
    accepted("Draw", image, REAL)
    if len(image.shape) not in (2, 3) or (
        len(image.shape) == 3 and image.shape[2] not in (1, 3, 4)
    ):
        raise ShapeError(
            f"Draw: an image has shape (height, width) or (height, width, 1, 3 or 4 channels), not {image.shape}"
        )
    if not 0 <= alpha <= 1:
        raise ArgumentValueError(f"Draw: alpha={alpha} must be between 0 and 1")
    return Shaped((*image.shape[:2], 4), int32)
