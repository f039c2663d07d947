"""Images in another size, and at the points of a grid. Their namespace is `plugrad.image`.

These functions are made of products with matrices and of gathered pixels, so every backend has them and their
derivatives.
"""

from __future__ import annotations

from functools import lru_cache, reduce
from itertools import product
from math import ceil
from sys import maxsize
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from plugrad.errors import ArgumentValueError, OutOfMemory, ShapeError
from plugrad.kernels import movement, resize as kernels
from plugrad.ops.arguments import as_supported_dtype, as_tensor, cast
from plugrad.ops.attributes import check_choice, check_flag, check_real, is_sequence, to_list
from plugrad.ops.binary import add, clip, where
from plugrad.ops.dtypes import check_floats
from plugrad.ops.indexing import first_backend, take
from plugrad.ops.linalg import matmul
from plugrad.ops.movement import concat, permute_dims
from plugrad.ops.unary import abs, floor, isnan, round
from plugrad.ops.windows import check_spatial_axes, restore_layout, to_kernel_layout
from plugrad.types.arguments import explain_wrong_calls
from plugrad.types.dtype import FLOATING, float32, int32
from plugrad.types.shapes import count_elements
from plugrad.types.windows import as_sizes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.specs import ShapeLike

ResizeMethod = Literal["nearest", "linear", "cubic"]
RESIZE_METHODS: Final = ("nearest", "linear", "cubic")
PaddingMode = Literal["zeros", "border", "reflection"]
PADDING_MODES: Final = ("zeros", "border", "reflection")
KEYS_CUBIC_COEFFICIENT: Final = -0.5
"""The coefficient of Keys' cubic kernel that reproduces parabolas, which is used for downsampling with `antialias`."""
SHARP_CUBIC_COEFFICIENT: Final = -0.75
"""The coefficient of Keys' cubic kernel that image programs prefer, which gives sharper images."""
BLOCKWISE_MIN_PIXELS: Final = 256
"""The number of pixels along an axis above which it is resized in blocks, because most weights are 0."""
RESULT_BLOCK_ROWS: Final = 128
"""The number of rows of the result in each block."""


@explain_wrong_calls
def resize(
    images: TensorLike,
    size: ShapeLike,
    method: ResizeMethod = "linear",
    *,
    align_corners: bool = False,
    antialias: bool = False,
    cubic_coefficient: float | None = None,
) -> Tensor:
    """The images in another size; a pixel is at its centre.

    >>> image = plugrad.asarray([[[0.0], [8.0], [16.0], [24.0]]])
    >>> plugrad.image.resize(image, (1, 2), "cubic")[0, :, 0]
    tensor([ 3.25, 20.75], dtype=float32)
    >>> plugrad.image.resize(image, (1, 2), "nearest")[0, :, 0]
    tensor([ 8., 24.], dtype=float32)

    The values are those of ``torch.nn.functional.interpolate``, for "nearest" with the mode "nearest-exact". The
    result has the axes and the dtype of the images; integers become float32 unless the method is "nearest".

    Args:
        images: of shape (batch, spatial axes …, channels); the batch axis may be absent.
        size: the new size, one number for each spatial axis; a single number is for images with a
            height and a width.
        method: "nearest" takes the nearest pixel, "linear" weights the two around a point along each
            axis, and "cubic" the four.
        align_corners: whether the corner pixels of the result are those of the images.
        antialias: whether images that become smaller are blurred first, so that no pixel is left out;
            for "linear" and "cubic".
        cubic_coefficient: the slope of the cubic kernel at distance 1 (Keys, "Cubic convolution
            interpolation for digital image processing", 1981); by default -0.75, and with antialias -0.5.

    Raises:
        ShapeError: the images have another number of axes, or have no pixels.
        ArgumentError: a flag is not a bool, or the coefficient is not a number.
        ArgumentValueError: the size is not positive integers, or another argument is none of the above.
        DTypeError: the images are neither floats nor integers.
    """
    op = "resize"
    check_choice(method, RESIZE_METHODS, op, "method")
    align_corners = check_flag(align_corners, op, "align_corners")
    antialias = check_flag(antialias, op, "antialias")
    if antialias and method == "nearest":
        raise ArgumentValueError(
            f"{op}: antialias=True blurs images, which method='nearest' does not; use 'linear' or 'cubic'"
        )
    coefficient = KEYS_CUBIC_COEFFICIENT if antialias else SHARP_CUBIC_COEFFICIENT
    if cubic_coefficient is not None:
        coefficient = check_real(cubic_coefficient, op, "cubic_coefficient")
    pixels = as_supported_dtype(images, kernels.resize_bilinear, op, "images")
    axes = len(to_list(size)) if is_sequence(size) else 2
    wanted = as_sizes(size, axes, f"{op}: size")
    check_spatial_axes(op, pixels, axes)
    batch = to_kernel_layout(pixels, axes, False)
    if 0 in batch.shape[1:-1]:
        raise ShapeError(f"{op}: images of shape {pixels.shape} have no pixels")
    shape = (batch.shape[0], *wanted, batch.shape[-1])
    if count_elements(shape) * batch.dtype.itemsize > maxsize:
        raise OutOfMemory(f"{op}: a result of shape {shape} is larger than the address space")
    if method != "nearest" and batch.dtype not in FLOATING:
        batch = cast(batch, float32)
    if axes == 2 and method == "linear" and not antialias:
        y = kernels.resize_bilinear(
            batch,
            size=(wanted[0], wanted[1]),
            align_corners=align_corners,
            half_pixel_centers=not align_corners,
        )
        return restore_layout(y, pixels, False)
    for axis, count in enumerate(wanted, 1):
        n = batch.shape[axis]
        if n == count:
            continue
        if method == "nearest":
            places = _source_positions(n, count, align_corners)
            rows = np.clip(np.floor(places + 0.5), 0, n - 1).astype(np.int32)
            indices = as_tensor(rows, op, backend=batch.backend)
            batch = take(batch, indices, axis=axis)
        else:
            how = method, align_corners, antialias, coefficient
            batch = _multiply_along_axis(batch, _resize_matrix(n, count, *how), axis)
    return restore_layout(batch, pixels, False)


def _source_positions(
    source_size: int, result_size: int, align_corners: bool
) -> NDArray[np.float64]:
    """Return the coordinates of the pixels of a resized axis among the `source_size` pixels of the original axis."""
    new = np.arange(result_size, dtype=np.float64)
    if align_corners:
        return new * ((source_size - 1) / (result_size - 1) if result_size > 1 else 0)
    return (new + 0.5) * (source_size / result_size) - 0.5


@lru_cache(maxsize=128)
def _resize_matrix(
    source_size: int,
    result_size: int,
    method: ResizeMethod,
    align_corners: bool,
    antialias: bool,
    cubic_coefficient: float,
) -> NDArray[np.float64]:
    """Return the matrix of weights, of shape (result_size, source_size), that resizes an axis of pixels.

    With antialias, the kernel is as wide as a pixel of the result, ends at the border, and has the sum 1; otherwise
    the pixels of the border continue beyond it.
    """
    reach = 1 if method == "linear" else 2
    scale = 1.0
    centers = _source_positions(source_size, result_size, align_corners)
    if antialias:
        step = (
            (source_size - 1) / (result_size - 1)
            if align_corners and result_size > 1
            else source_size / result_size
        )
        step = 0.0 if align_corners and result_size == 1 else step
        centers = (np.arange(result_size) + 0.5) * step - 0.5
        scale = max(step, 1.0)
    width = ceil(reach * scale)
    places = np.floor(centers).astype(int)[:, None] + np.arange(-width, width + 2)
    distance = np.abs(places - centers[:, None]) / scale
    is_linear = method == "linear"
    weights = (
        np.maximum(0, 1 - distance) if is_linear else _cubic_kernel(distance, cubic_coefficient)
    )
    if antialias:
        weights = np.where((places < 0) | (places >= source_size), 0, weights)
        weights /= weights.sum(axis=1, keepdims=True)
    matrix = np.zeros((result_size, source_size))
    rows = np.broadcast_to(np.arange(result_size)[:, None], places.shape)
    np.add.at(matrix, (rows, np.clip(places, 0, source_size - 1)), weights)
    matrix.flags.writeable = False
    return matrix


def _cubic_kernel(distance: Any, cubic_coefficient: float) -> Any:
    """Return Keys' cubic kernel at distances, a NumPy array of numbers of at least 0."""
    near = ((cubic_coefficient + 2) * distance - (cubic_coefficient + 3)) * distance**2 + 1
    far = ((distance - 5) * distance + 8) * (cubic_coefficient * distance) - 4 * cubic_coefficient
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def _multiply_along_axis(x: Tensor, matrix: NDArray[np.float64], axis: int) -> Tensor:
    """Return a matrix times each column of x along an axis; zeros of the matrix of a long axis are skipped."""
    axes = (axis, *(a for a in range(x.ndim) if a != axis))
    moved = permute_dims(x, axes)
    columns = movement.reshape(moved, shape=(x.shape[axis], count_elements(moved.shape[1:])))
    count, n = matrix.shape
    step = count if n <= BLOCKWISE_MIN_PIXELS else RESULT_BLOCK_ROWS
    parts: list[Tensor] = []
    for start in range(0, count, step):
        rows = matrix[start : start + step]
        used = np.flatnonzero(rows.any(axis=0))
        first, end = int(used[0]), int(used[-1]) + 1
        weights = as_tensor(
            np.ascontiguousarray(rows[:, first:end]), "resize", dtype=x.dtype, backend=x.backend
        )
        some = movement.slice(columns, begin=(first, 0), size=(end - first, columns.shape[1]))
        parts.append(matmul(weights, some))
    y = parts[0] if len(parts) == 1 else concat(parts, axis=0)
    y = movement.reshape(y, shape=(count, *moved.shape[1:]))
    return permute_dims(y, sorted(range(x.ndim), key=axes.__getitem__))


@explain_wrong_calls
def grid_sample(
    images: TensorLike,
    grid: TensorLike,
    method: ResizeMethod = "linear",
    *,
    padding_mode: PaddingMode = "zeros",
    align_corners: bool = False,
) -> Tensor:
    """The images at the points of a grid, which spans them from -1 to 1.

    >>> image = plugrad.asarray([[[[0.0], [2.0]], [[4.0], [6.0]]]])
    >>> grid = plugrad.asarray([[[[0.0, 0.0], [0.5, -0.5]]]])
    >>> plugrad.image.grid_sample(image, grid)[0, :, :, 0]
    tensor([[3., 2.]], dtype=float32)

    The result has the shape (batch, grid axes …, channels) and the dtype of the images. The values are those of
    ``torch.nn.functional.grid_sample``: -1 and 1 are the outer borders of the first and the last pixel, or with
    `align_corners` their centres. NaN in a grid counts as -1. The gradient of "nearest" for the grid is 0.

    Args:
        images: of shape (batch, height, width, channels) or (batch, depth, height, width, channels),
            or with any number of spatial axes.
        grid: points (x, y), or (x, y, z) and so on, on the last axis: the coordinate of the last
            spatial axis comes first. Its shape is (batch, as many axes as the images …, number of spatial axes).
        method: "nearest" takes the nearest pixel, "linear" weights the two around a point along each
            axis, and "cubic" the four.
        padding_mode: what lies beyond the images: "zeros", the pixels of the border, or their
            "reflection" at the border.
        align_corners: whether -1 and 1 are the centres of the corner pixels.

    Raises:
        DTypeError: images or grid are tensors or arrays that do not hold floats.
        ShapeError: the shapes do not match, or the images have no pixels.
        ArgumentError: `align_corners` is not a bool.
        ArgumentValueError: `method` or `padding_mode` is unknown.
    """
    op = "grid_sample"
    check_choice(method, RESIZE_METHODS, op, "method")
    check_choice(padding_mode, PADDING_MODES, op, "padding_mode")
    align_corners = check_flag(align_corners, op, "align_corners")
    check_floats(op, images=images, grid=grid)
    home = first_backend(images, grid)
    pixels = _as_floats(as_tensor(images, op, "images", backend=home))
    points = _as_floats(as_tensor(grid, op, "grid", backend=home))
    axes = pixels.ndim - 2
    if axes < 1 or points.ndim != pixels.ndim or points.shape[-1] != axes:
        raise ShapeError(
            f"{op}: images must have shape (batch, spatial axes …, channels) and grid (batch, as many axes …, number "
            f"of spatial axes); the shapes are {pixels.shape} and {points.shape}"
        )
    if points.shape[0] != pixels.shape[0] or 0 in pixels.shape[1:-1]:
        raise ShapeError(
            f"{op}: images of shape {pixels.shape} must have pixels, and a grid for each; grid has shape {points.shape}"
        )
    # What lies so far out is beyond any image; infinite coordinates have no fraction.
    points = clip(where(isnan(points), -1.0, points), -MAX_GRID_POINT, MAX_GRID_POINT)
    sizes = pixels.shape[1:-1]
    coordinates = [
        _as_coordinates(points[..., axes - 1 - axis], n, align_corners)
        for axis, n in enumerate(sizes)
    ]
    sampler = _Sampler(pixels, padding_mode, align_corners)
    if method == "nearest":
        return sampler.pixels_at(
            [round(c) for c in map(sampler.bound_coordinates, coordinates, sizes)]
        )
    if method == "linear":
        coordinates = list(map(sampler.bound_coordinates, coordinates, sizes))
    offsets, kernel = (
        ((0, 1), _linear_weight) if method == "linear" else ((-1, 0, 1, 2), _cubic_weight)
    )
    lows = [floor(c) for c in coordinates]
    rests = [c - low for c, low in zip(coordinates, lows, strict=True)]
    parts: list[Tensor] = []
    for tap in product(offsets, repeat=axes):
        weights = [kernel(rest, o) for rest, o in zip(rests, tap, strict=True)]
        weight = cast(reduce(lambda a, b: a * b, weights), pixels.dtype)
        places = [low + float(o) for low, o in zip(lows, tap, strict=True)]
        if method == "cubic":
            places = list(map(sampler.bound_coordinates, places, sizes))
        found = sampler.pixels_at(places)
        parts.append(found * movement.expand_dims(weight, dim=weight.ndim))
    return reduce(add, parts)


MAX_GRID_POINT: Final = 2.0**16
"""The largest absolute value of a grid point; points beyond are outside of any image."""


class _Sampler:
    """Samples images at points, also beyond their borders."""

    def __init__(self, images: Tensor, padding_mode: PaddingMode, align_corners: bool) -> None:
        self.padding_mode, self.align_corners = padding_mode, align_corners
        self.batch, self.sizes = images.shape[0], images.shape[1:-1]
        pixels = self.batch * count_elements(self.sizes)
        self.rows = movement.reshape(images, shape=(pixels, images.shape[-1]))

    def bound_coordinates(self, coordinates: Tensor, axis_size: int) -> Tensor:
        """Return coordinates limited to an axis of pixels, or next to it if the padding is zeros."""
        if self.padding_mode == "reflection":
            coordinates = self._reflect_coordinates(coordinates, axis_size)
        return (
            clip(coordinates, -2.0, axis_size + 1.0)
            if self.padding_mode == "zeros"
            else clip(coordinates, 0.0, axis_size - 1.0)
        )

    def _reflect_coordinates(self, coordinates: Tensor, axis_size: int) -> Tensor:
        """Return coordinates reflected at the border: at the centres of the outer pixels, or at their outer edges."""
        low, span = (0.0, axis_size - 1) if self.align_corners else (-0.5, axis_size)
        if span == 0:
            return coordinates * 0.0
        distance = abs(coordinates - low)
        turns = floor(distance / float(span))
        rest = distance - turns * float(span)
        is_odd = turns - 2.0 * floor(turns / 2.0)
        return where(is_odd > 0.5, float(span) - rest, rest) + low

    def pixels_at(self, coordinates: list[Tensor]) -> Tensor:
        """Return the pixels at integer coordinates, one tensor of them for each axis, or zeros beyond the border."""
        index: Any = np.arange(self.batch, dtype=np.int32).reshape(
            self.batch, *(1,) * len(self.sizes)
        )
        index = as_tensor(index, "grid_sample", backend=self.rows.backend)
        inside: Tensor | None = None
        for c, n in zip(coordinates, self.sizes, strict=True):
            whole = clip(c, 0.0, n - 1.0)
            if self.padding_mode == "zeros":
                is_here = whole == c
                inside = is_here if inside is None else inside & is_here
            index = index * n + cast(whole, int32)
        found = take(self.rows, index, axis=0)
        if inside is None:
            return found
        return where(movement.expand_dims(inside, dim=inside.ndim), found, 0.0)


def _as_floats(x: Tensor) -> Tensor:
    """Return a floating tensor unchanged, and any other as float32."""
    return x if x.dtype in FLOATING else cast(x, float32)


def _as_coordinates(grid_points: Tensor, axis_size: int, align_corners: bool) -> Tensor:
    """Return grid points from -1 to 1 as coordinates along an axis of pixels."""
    if align_corners:
        return (grid_points + 1.0) * ((axis_size - 1) / 2)
    return (grid_points + 1.0) * (axis_size / 2) - 0.5


def _linear_weight(fraction: Tensor, offset: int) -> Tensor:
    """Return the weight in linear interpolation of the pixel before (offset 0) or after (offset 1) a coordinate."""
    return fraction if offset else 1.0 - fraction


def _cubic_weight(fraction: Tensor, offset: int) -> Tensor:
    """Return the weight in cubic interpolation of the pixel at an offset (-1, 0, 1 or 2) from a coordinate's floor."""
    distance = fraction - float(offset) if offset <= 0 else float(offset) - fraction
    if offset in (0, 1):
        return (
            (SHARP_CUBIC_COEFFICIENT + 2) * distance - (SHARP_CUBIC_COEFFICIENT + 3)
        ) * distance * distance + 1.0
    return ((distance - 5.0) * distance + 8.0) * (
        SHARP_CUBIC_COEFFICIENT * distance
    ) - 4 * SHARP_CUBIC_COEFFICIENT
