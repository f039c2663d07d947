"""Resizing and sampling of images whose channels come second, and the selection of boxes."""

from __future__ import annotations

import math
from functools import reduce
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

import plugrad
from plugrad_onnx.elements import as_tensor
from plugrad_onnx.errors import InvalidModel
from plugrad_onnx.operators.common import cast_like_input, number_like, single_element, to_integers
from plugrad_onnx.registry import operator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from plugrad import Tensor
    from plugrad_onnx.registry import HostArray

ROUNDING_MODES: dict[str, Callable[[Any], Any]] = {
    "round_prefer_floor": lambda c: np.ceil(c - 0.5),
    "round_prefer_ceil": lambda c: np.floor(c + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}
"""The function that rounds coordinates to pixels, by ONNX's name of the mode."""


@operator("Upsample")
def upsample_by_attribute(x: Tensor, *, scales: Sequence[float], mode: str = "nearest") -> Tensor:
    """Enlarge images (Upsample of opset 7)."""
    return _resize_by_factors(x, list(scales), mode)


@operator("Upsample", since=9)
def upsample(x: Tensor, scales: HostArray, *, mode: str = "nearest") -> Tensor:
    """Enlarge images (Upsample)."""
    return _resize_by_factors(x, scales.ravel().tolist(), mode)


@operator("Resize", since=10)
def legacy_resize(x: Tensor, scales: HostArray, *, mode: str = "nearest") -> Tensor:
    """Resize images (Resize of opset 10)."""
    return _resize_by_factors(x, scales.ravel().tolist(), mode)


@operator("Resize", since=11)
def resize(
    x: Tensor,
    roi: HostArray | None = None,
    scales: HostArray | None = None,
    sizes: HostArray | None = None,
    *,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    """Resize images (Resize): along each axis a product with a matrix of interpolation weights."""
    chosen = [a % x.ndim for a in (range(x.ndim) if axes is None else axes)]
    lengths, factors = _resolve_sizes(x, chosen, scales, sizes, keep_aspect_ratio_policy)
    crops = coordinate_transformation_mode == "tf_crop_and_resize"
    result = x
    for place, axis in enumerate(chosen):
        size = x.shape[axis]
        if lengths[place] == size and factors[place] == 1 and not crops:
            continue
        part = (0.0, 1.0)
        if crops and roi is not None:
            part = (float(roi[place]), float(roi[place + len(chosen)]))
        where = _find_coordinates(
            size, lengths[place], factors[place], coordinate_transformation_mode, part
        )
        if mode == "nearest":
            indices = np.clip(ROUNDING_MODES[nearest_mode](where), 0, size - 1).astype(np.int32)
            result = plugrad.take(result, as_tensor(indices, x.device), axis=axis)
        else:
            scale = min(factors[place], 1.0) if antialias else 1.0
            weights = _interpolation_matrix(
                where, size, scale, mode, cubic_coeff_a, bool(exclude_outside), bool(antialias)
            )
            result = _multiply_along_axis(result, weights, axis)
        outside = (where < 0) | (where > size - 1)
        if crops and outside.any():
            mask = outside.reshape([-1 if a == axis else 1 for a in range(x.ndim)])
            fill = plugrad.full((), extrapolation_value, dtype=result.dtype, device=x.device)
            result = plugrad.where(as_tensor(mask, x.device), fill, result)
    return cast_like_input(result, x)


@operator("GridSample")
def grid_sample(
    x: Tensor,
    grid: Tensor,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Tensor:
    """Sample images at the points of a grid, whose coordinates run from −1 to 1."""
    rank = x.ndim - 2
    method: Any = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    edge: Any = padding_mode
    result = plugrad.image.grid_sample(
        plugrad.permute_dims(x, (0, *range(2, rank + 2), 1)), grid, method,
        padding_mode=edge, align_corners=bool(align_corners),
    )  # fmt: skip
    return cast_like_input(plugrad.permute_dims(result, (0, rank + 1, *range(1, rank + 1))), x)


def interpolate_at(x: Tensor, coordinates: Sequence[Tensor]) -> Tensor:
    """Interpolate images of shape (N, C, …) at points, given by a tensor of shape (N, …) per spatial axis."""
    sizes = x.shape[2:]
    images = plugrad.reshape(plugrad.permute_dims(x, (0, *range(2, x.ndim), 1)), (-1, x.shape[1]))
    lows = [plugrad.floor(c) for c in coordinates]
    rests = [c - low for c, low in zip(coordinates, lows, strict=True)]
    parts: list[Tensor] = []
    for offsets in product((0, 1), repeat=len(sizes)):
        weights = [rest if o else 1 - rest for rest, o in zip(rests, offsets, strict=True)]
        weight = plugrad.expand_dims(reduce(plugrad.multiply, weights), axis=-1)
        places = [low + float(o) for low, o in zip(lows, offsets, strict=True)]
        parts.append(weight * _take_pixels(images, places, x.shape[0], sizes))
    result = reduce(plugrad.add, parts)
    result = plugrad.permute_dims(result, (0, result.ndim - 1, *range(1, result.ndim - 1)))
    return cast_like_input(result, x)


@operator("NonMaxSuppression")
def non_max_suppression(
    boxes: HostArray,
    scores: HostArray,
    max_output_boxes_per_class: HostArray | None = None,
    iou_threshold: HostArray | None = None,
    score_threshold: HostArray | None = None,
    *,
    center_point_box: int = 0,
) -> Any:
    """Return rows of batch, class and box for the best boxes of each class that overlap little."""
    count = (
        0 if max_output_boxes_per_class is None else int(single_element(max_output_boxes_per_class))
    )
    overlap = 0.0 if iou_threshold is None else float(single_element(iou_threshold))
    least = -math.inf if score_threshold is None else float(single_element(score_threshold))
    corners = _as_corners(boxes, bool(center_point_box))
    rows = [
        (batch, kind, box)
        for batch in range(scores.shape[0])
        for kind in range(scores.shape[1])
        for box in _select_boxes(corners[batch], scores[batch, kind], count, overlap, least)
    ]
    return np.array(rows, np.int64).reshape(-1, 3)


@operator("RoiAlign")
def roi_align(
    x: Tensor,
    rois: HostArray,
    batch_indices: HostArray,
    *,
    coordinate_transformation_mode: str | None = None,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    opset: int,
) -> Tensor:
    """Resample regions of images to one size."""
    half = coordinate_transformation_mode or ("half_pixel" if opset >= 16 else "output_half_pixel")
    shift = 0.5 if half == "half_pixel" else 0.0
    out = (output_height, output_width)
    results: list[Tensor] = []
    for roi, image in zip(rois, to_integers(batch_indices), strict=True):
        x1, y1, x2, y2 = (float(v) * spatial_scale - shift for v in roi)
        spans = [y2 - y1, x2 - x1]
        spans = spans if shift else [max(span, 1.0) for span in spans]
        counts = [sampling_ratio or math.ceil(s / n) for s, n in zip(spans, out, strict=True)]
        if min(counts) <= 0:  # a region without an extent has no samples
            results.append(plugrad.zeros((x.shape[1], *out), dtype=x.dtype, device=x.device))
            continue
        places = [
            start + span / n * (np.arange(n * c) // c + (np.arange(n * c) % c + 0.5) / c)
            for start, span, n, c in zip((y1, x1), spans, out, counts, strict=True)
        ]
        results.append(_pool_region(x[image], places, counts, out, mode))
    if not results:
        return plugrad.zeros((0, x.shape[1], *out), dtype=x.dtype, device=x.device)
    return plugrad.stack(results)


@operator("MaxRoiPool")
def max_roi_pool(
    x: Tensor, rois: HostArray, *, pooled_shape: Sequence[int], spatial_scale: float = 1.0
) -> Tensor:
    """Divide regions of images into bins and return the maximum of each bin."""
    height, width = pooled_shape
    results: list[Tensor] = []
    for roi in rois:
        image, corners = int(roi[0]), roi[1:] * spatial_scale
        # Halves are rounded away from zero, as in C.
        x1, y1, x2, y2 = np.trunc(corners + np.copysign(0.5, corners)).astype(int).tolist()
        rows = _find_bins(y1, max(y2 - y1 + 1, 1), height, x.shape[2])
        columns = _find_bins(x1, max(x2 - x1 + 1, 1), width, x.shape[3])
        zero = plugrad.zeros(x.shape[1:2], dtype=x.dtype, device=x.device)
        cells = [
            plugrad.max(x[image, :, a:b, c:d], axis=(1, 2)) if b > a and d > c else zero
            for a, b in rows
            for c, d in columns
        ]
        results.append(plugrad.reshape(plugrad.stack(cells, axis=1), (x.shape[1], height, width)))
    if not results:
        return plugrad.zeros((0, x.shape[1], height, width), dtype=x.dtype, device=x.device)
    return plugrad.stack(results)


def _find_bins(
    region_start: int, region_length: int, bin_count: int, image_size: int
) -> list[tuple[int, int]]:
    """Return the bins of a region along an axis, clipped to the image."""
    step = region_length / bin_count
    return [
        (
            min(max(math.floor(k * step) + region_start, 0), image_size),
            min(max(math.ceil((k + 1) * step) + region_start, 0), image_size),
        )
        for k in range(bin_count)
    ]


def _pool_region(
    image: Tensor,
    sample_positions: Sequence[NDArray[Any]],
    samples_per_bin: Sequence[int],
    output_size: Sequence[int],
    mode: str,
) -> Tensor:
    """Return the mean or maximum of the samples in each bin of a region (RoiAlign)."""
    rows, columns = (
        _corner_weights(where, size)
        for where, size in zip(sample_positions, image.shape[1:], strict=True)
    )
    shape = (image.shape[0], output_size[0], samples_per_bin[0], output_size[1], samples_per_bin[1])
    if mode == "avg":
        samples = _multiply_along_axis(
            _multiply_along_axis(image, rows[0] + rows[1], 1), columns[0] + columns[1], 2
        )
        return plugrad.mean(plugrad.reshape(samples, shape), axis=(2, 4))
    if mode != "max":
        raise InvalidModel(f"RoiAlign has the mode {mode!r}; avg and max are known.")
    corners = [
        _multiply_along_axis(_multiply_along_axis(image, row, 1), column, 2)
        for row in rows
        for column in columns
    ]
    return plugrad.max(plugrad.reshape(reduce(plugrad.maximum, corners), shape), axis=(2, 4))


def _corner_weights(
    coordinates: NDArray[Any], image_size: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the interpolation weights of the pixels before and after each coordinate; 0 outside the image."""
    inside = (coordinates >= -1) & (coordinates <= image_size)
    clipped = np.clip(coordinates, 0, image_size - 1)
    low = np.minimum(clipped.astype(int), image_size - 1)
    rest = clipped - low
    first, second = np.zeros((2, len(coordinates), image_size), np.float32)
    first[np.arange(len(coordinates)), low] = (1 - rest) * inside
    second[np.arange(len(coordinates)), np.minimum(low + 1, image_size - 1)] = rest * inside
    return first, second


def _resize_by_factors(x: Tensor, scales: list[float], mode: str) -> Tensor:
    """Resize images by scale factors with the coordinates of ONNX before opset 11."""
    factors = np.array(scales, np.float32)
    return resize(
        x, None, factors, coordinate_transformation_mode="asymmetric", mode=mode,
        nearest_mode="floor",
    )  # fmt: skip


def _resolve_sizes(
    x: Tensor,
    axes: Sequence[int],
    scales: HostArray | None,
    sizes: HostArray | None,
    aspect_ratio_policy: str,
) -> tuple[list[int], list[float]]:
    """Return the new sizes of axes and their scale factors."""
    old = [x.shape[axis] for axis in axes]
    if sizes is None or sizes.size == 0:
        if scales is None or scales.size == 0:
            raise InvalidModel("Resize has neither scales nor sizes.")
        factors = [float(s) for s in scales]
        return [math.floor(n * f) for n, f in zip(old, factors, strict=True)], factors
    wanted = to_integers(sizes)
    factors = [n / before for n, before in zip(wanted, old, strict=True)]
    if aspect_ratio_policy != "stretch":
        common = min(factors) if aspect_ratio_policy == "not_larger" else max(factors)
        factors = [common] * len(old)
        wanted = [math.floor(common * n + 0.5) for n in old]
    return wanted, factors


def _find_coordinates(
    old_size: int, new_size: int, scale: float, mode: str, region_bounds: tuple[float, float]
) -> NDArray[np.float64]:
    """Return the coordinates of new pixels in the old image."""
    new = np.arange(new_size, dtype=np.float64)
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and new_size > 1):
        return (new + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel":
        return new * 0
    if mode == "asymmetric":
        return new / scale
    if mode == "align_corners":
        whole = scale * old_size
        return new * (old_size - 1) / (whole - 1) if whole != 1 else new * 0
    if mode == "half_pixel_symmetric":
        center, adjust = old_size / 2, new_size / (scale * old_size)
        return center * (1 - adjust) + (new + 0.5) / scale - 0.5
    if mode == "tf_crop_and_resize":
        start, end = region_bounds
        if new_size == 1:
            return 0.5 * (start + end) * (old_size - 1) + new
        return start * (old_size - 1) + new * (end - start) * (old_size - 1) / (new_size - 1)
    raise InvalidModel(
        f"Resize has the coordinate_transformation_mode {mode!r}, which is not known."
    )


def _interpolation_matrix(
    coordinates: NDArray[np.float64],
    old_size: int,
    scale: float,
    mode: str,
    cubic_coefficient: float,
    exclude_outside: bool,
    normalize: bool,
) -> NDArray[np.float32]:
    """Return the matrix of weights from old pixels to new ones; `normalize` makes the weights of a pixel add up to 1.

    With a scale below 1, the kernel is so much wider, which keeps out frequencies that the result
    cannot show.
    """
    reach = math.ceil((1 if mode == "linear" else 2) / scale)
    base = np.floor(coordinates).astype(int)
    offsets = np.arange(-reach + 1, reach + 1)
    places = base[:, None] + offsets
    distance = np.abs(places - coordinates[:, None]) * scale
    if mode == "linear":
        weights = np.maximum(0, 1 - distance)
    else:
        a = cubic_coefficient
        near = (a + 2) * distance**3 - (a + 3) * distance**2 + 1
        far = a * distance**3 - 5 * a * distance**2 + 8 * a * distance - 4 * a
        weights = np.where(distance <= 1, near, np.where(distance < 2, far, 0))
    if exclude_outside:
        weights = np.where((places < 0) | (places >= old_size), 0, weights)
    if exclude_outside or normalize:
        total = weights.sum(axis=1, keepdims=True)
        weights = weights / np.where(total == 0, 1, total)
    matrix = np.zeros((len(coordinates), old_size))
    rows = np.broadcast_to(np.arange(len(coordinates))[:, None], places.shape)
    np.add.at(matrix, (rows, np.clip(places, 0, old_size - 1)), weights)
    return matrix.astype(np.float32)


def _multiply_along_axis(x: Tensor, matrix: NDArray[Any], axis: int) -> Tensor:
    """Multiply x by a matrix along an axis."""
    weights = (
        plugrad.astype(as_tensor(np.ascontiguousarray(matrix.T), x.device), x.dtype)
        if x.dtype.is_inexact
        else as_tensor(np.ascontiguousarray(matrix.T), x.device)
    )
    moved = plugrad.moveaxis(x if x.dtype.is_inexact else plugrad.astype(x, "float32"), axis, -1)
    return plugrad.moveaxis(plugrad.matmul(moved, weights), -1, axis)


def _take_pixels(
    images: Tensor, coordinates: Sequence[Tensor], image_count: int, image_size: Sequence[int]
) -> Tensor:
    """Return the pixels of images at integer coordinates; 0 outside of the image."""
    rank = len(image_size)
    first = np.arange(image_count).reshape((image_count,) + (1,) * rank) * math.prod(image_size)
    row = as_tensor(first.astype(np.int32), images.device)
    inside: Tensor | None = None
    for axis, (place, size) in enumerate(zip(coordinates, image_size, strict=True)):
        within = plugrad.logical_and(
            plugrad.greater_equal(place, number_like(0, place)),
            plugrad.less_equal(place, number_like(size - 1, place)),
        )
        inside = within if inside is None else plugrad.logical_and(inside, within)
        whole = plugrad.astype(plugrad.clip(place, 0.0, size - 1.0), "int32")
        row = row + whole * math.prod(image_size[axis + 1 :])
    taken = plugrad.take(images, row, axis=0)
    assert inside is not None
    return plugrad.where(plugrad.expand_dims(inside, axis=-1), taken, number_like(0, taken))


def _as_corners(boxes: NDArray[Any], are_centered: bool) -> NDArray[Any]:
    """Convert boxes, given by corners or by center and size, to (y1, x1, y2, x2) in ascending order."""
    if are_centered:
        x, y, width, height = np.moveaxis(boxes, -1, 0)
        return np.stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2], -1)
    first, second = boxes[..., :2], boxes[..., 2:]
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], -1)


def _select_boxes(
    boxes: NDArray[Any], scores: NDArray[Any], max_count: int, max_overlap: float, min_score: float
) -> list[int]:
    """Select boxes by score, without those that overlap a selected one too much."""
    area = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    order = np.argsort(-scores, kind="stable")
    remaining = order[scores[order] > min_score]
    chosen: list[int] = []
    while remaining.size and len(chosen) < max_count:
        best, remaining = int(remaining[0]), remaining[1:]
        chosen.append(best)
        low = np.maximum(boxes[best, :2], boxes[remaining, :2])
        high = np.minimum(boxes[best, 2:], boxes[remaining, 2:])
        shared = np.prod(np.maximum(high - low, 0), axis=1)
        union = area[best] + area[remaining] - shared
        remaining = remaining[shared <= max_overlap * union]
    return chosen
