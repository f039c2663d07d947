"""Images: sizes, crops, transforms and boxes; and Fourier transforms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.graph_models.registry import register_operator
from plugrad.ops import detection, fft, image, resize

if TYPE_CHECKING:
    from plugrad.graph_models.registry import HostArray
    from plugrad.tensor.tensor import Tensor


@register_operator("ResizeBilinear")
def resize_bilinear(
    images: Tensor,
    size: HostArray,
    *,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Tensor:
    """Resize images by bilinear interpolation."""
    return resize.resize_bilinear(
        images, _as_size(size), align_corners=align_corners, half_pixel_centers=half_pixel_centers
    )


@register_operator("ResizeNearestNeighbor")
def resize_nearest(
    images: Tensor,
    size: HostArray,
    *,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Tensor:
    """Resize images by nearest-neighbour interpolation."""
    return resize.resize_nearest_neighbor(
        images, _as_size(size), align_corners=align_corners, half_pixel_centers=half_pixel_centers
    )


@register_operator("CropAndResize")
def crop_and_resize(
    images: Tensor, boxes: Tensor, box_image_indices: Tensor, size: HostArray, *, method: str = "bilinear",
    extrapolation_value: float = 0.0,
) -> Tensor:  # fmt: skip
    """Crop boxes out of images and resize them to one size."""
    kind: Any = method.lower()
    return image.crop_and_resize(
        images, boxes, box_image_indices, _as_size(size), kind, extrapolation_value
    )


@register_operator("ImageProjectiveTransformV3")
def projective_transform(
    images: Tensor, transforms: Tensor, output_shape: HostArray, fill_value: HostArray, *, interpolation: str,
    fill_mode: str = "constant",
) -> Tensor:  # fmt: skip
    """Apply projective transformations to images."""
    how: Any = interpolation.lower()
    outside: Any = fill_mode.lower()
    value = fill_value.item()
    return image.transform(images, transforms, how, outside, value, _as_size(output_shape))


@register_operator("NonMaxSuppressionV2", "NonMaxSuppressionV3")
def non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    max_output_size: HostArray,
    iou_threshold: HostArray,
    score_threshold: HostArray | None = None,
) -> Tensor:
    """Select boxes by non-maximum suppression."""
    score = float("-inf") if score_threshold is None else score_threshold.item()
    return detection.non_max_suppression(
        boxes, scores, int(max_output_size.item()), iou_threshold.item(), score
    )


@register_operator("NonMaxSuppressionV4", output_names=("selected_indices", "valid_outputs"))
def non_max_suppression_padded(
    boxes: Tensor, scores: Tensor, max_output_size: HostArray, iou_threshold: HostArray, score_threshold: HostArray, *,
    pad_to_max_output_size: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Select boxes by non-maximum suppression; return padded indices and their number."""
    return detection.non_max_suppression_padded(
        boxes,
        scores,
        int(max_output_size.item()),
        iou_threshold.item(),
        score_threshold.item(),
        pad_to_max_output_size,
    )


@register_operator("NonMaxSuppressionV5", output_names=("selected_indices", "selected_scores"))
def non_max_suppression_with_score(
    boxes: Tensor,
    scores: Tensor,
    max_output_size: HostArray,
    iou_threshold: HostArray,
    score_threshold: HostArray,
    soft_nms_sigma: HostArray,
) -> tuple[Tensor, ...]:
    """Select boxes by soft non-maximum suppression, which lowers the scores of overlapping boxes."""
    return detection.non_max_suppression_with_score(
        boxes,
        scores,
        int(max_output_size.item()),
        iou_threshold.item(),
        score_threshold.item(),
        soft_nms_sigma.item(),
    )


@register_operator("FFT")
def fourier_transform(x: Tensor) -> Tensor:
    """Return the Fourier transform of the last axis."""
    return fft.fft(x)


@register_operator("IFFT")
def inverse_fourier_transform(x: Tensor) -> Tensor:
    """Return the inverse Fourier transform of the last axis."""
    return fft.ifft(x)


@register_operator("RFFT")
def real_fourier_transform(x: Tensor, length: HostArray | None = None) -> Tensor:
    """Return the non-negative frequencies of the Fourier transform of real numbers."""
    return fft.rfft(x, n=None if length is None else int(length.item()))


@register_operator("IRFFT")
def inverse_real_fourier_transform(x: Tensor, length: HostArray | None = None) -> Tensor:
    """Return real numbers, given the non-negative frequencies of their Fourier transform."""
    return fft.irfft(x, n=None if length is None else int(length.item()))


def _as_size(values: HostArray) -> tuple[int, ...]:
    """Return an array of numbers, such as height and width, as a tuple of integers."""
    return tuple(int(value) for value in values.ravel())
