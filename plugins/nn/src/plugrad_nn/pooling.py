"""Layers that summarize windows of sequences, images and volumes, or all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import plugrad
from plugrad.extend import ShapeError
from plugrad_nn.arguments import SizeOrSizes, check_choice, check_flag, check_sizes
from plugrad_nn.layer import INFERENCE, Layer, Mode

if TYPE_CHECKING:
    from plugrad import Tensor
    from plugrad_nn.parameters import Params


@dataclass(frozen=True, repr=False)
class _Pooling(Layer):
    """A pooling over windows of any number of spatial axes."""

    pool_size: SizeOrSizes = 2
    strides: SizeOrSizes | None = None
    padding: str = "valid"

    rank: ClassVar[int]
    is_max: ClassVar[bool]

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_sizes(name, "pool_size", self.pool_size, self.rank)
        if self.strides is not None:
            check_sizes(name, "strides", self.strides, self.rank)
        check_choice(name, "padding", self.padding, ("valid", "same"))
        check_flag(name, "return_positions", getattr(self, "return_positions", False))

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Any:
        """Return one element for each window."""
        name = type(self).__name__
        x = plugrad.asarray(x)
        if x.ndim != self.rank + 2:
            raise ShapeError(
                f"{name}: x has shape {x.shape}; it must have {self.rank + 2} axes: the batch, "
                f"{self.rank} spatial ones and the channels"
            )
        window = check_sizes(name, "pool_size", self.pool_size, self.rank)
        given = self.strides
        strides = window if given is None else check_sizes(name, "strides", given, self.rank)
        pad: Any = self.padding
        if getattr(self, "return_positions", False):
            return plugrad.max_pool_with_argmax(x, window, strides, pad)
        if self.rank == 3:
            pool = plugrad.max_pool3d if self.is_max else plugrad.avg_pool3d
            return pool(x, window, strides, pad)
        pool = plugrad.max_pool if self.is_max else plugrad.avg_pool
        if self.rank == 2:
            return pool(x, window, strides, pad)
        images = plugrad.expand_dims(x, axis=1)  # sequences are images of height 1
        return plugrad.squeeze(pool(images, (1, *window), (1, *strides), pad), axis=1)


@dataclass(frozen=True, repr=False)
class MaxPooling1D(_Pooling):
    """The maximum of each window of sequences, of shape (batch, width, channels).

    >>> nn.MaxPooling1D()({}, plugrad.asarray([[[1.0], [5.0], [2.0], [3.0]]]))[0, :, 0]
    tensor([5., 3.], dtype=float32)

    Arguments and errors are as for `MaxPooling2D`, with one spatial axis.
    """

    return_positions: bool = False

    rank: ClassVar[int] = 1
    is_max: ClassVar[bool] = True


@dataclass(frozen=True, repr=False)
class MaxPooling2D(_Pooling):
    """The maximum of each window of images, of shape (batch, height, width, channels).

    >>> nn.MaxPooling2D()({}, plugrad.ones((1, 8, 8, 3))).shape
    (1, 4, 4, 3)

    Args:
        pool_size: the size of a window, one number or one for each spatial axis.
        strides: the distance between neighbouring windows, likewise; by default the size of a window.
        padding: "valid" or "same"; padding never counts.
        return_positions: whether the result is a pair: the largest elements and their positions, which `MaxUnpooling2D`
            takes; see `plugrad.max_pool_with_argmax`.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        ShapeError: in a call, the input has another number of axes, or a window does not fit.
        DTypeError: in a call, the input holds bools or complex numbers.
    """

    return_positions: bool = False

    rank: ClassVar[int] = 2
    is_max: ClassVar[bool] = True


@dataclass(frozen=True, repr=False)
class MaxPooling3D(_Pooling):
    """The maximum of each window of volumes, of shape (batch, depth, height, width, channels).

    >>> nn.MaxPooling3D()({}, plugrad.ones((1, 4, 8, 8, 3))).shape
    (1, 2, 4, 4, 3)

    Arguments and errors are as for `MaxPooling2D`, with three spatial axes.
    """

    return_positions: bool = False

    rank: ClassVar[int] = 3
    is_max: ClassVar[bool] = True


@dataclass(frozen=True, repr=False)
class AveragePooling1D(_Pooling):
    """The average of each window of sequences, of shape (batch, width, channels).

    >>> nn.AveragePooling1D()({}, plugrad.asarray([[[1.0], [5.0], [2.0], [3.0]]]))[0, :, 0]
    tensor([3. , 2.5], dtype=float32)

    Arguments and errors are as for `MaxPooling2D`, with one spatial axis; the input must hold floats.
    """

    rank: ClassVar[int] = 1
    is_max: ClassVar[bool] = False


@dataclass(frozen=True, repr=False)
class AveragePooling2D(_Pooling):
    """The average of each window of images, of shape (batch, height, width, channels).

    >>> nn.AveragePooling2D()({}, plugrad.ones((1, 8, 8, 3))).shape
    (1, 4, 4, 3)

    Arguments and errors are as for `MaxPooling2D`; the input must hold floats.
    """

    rank: ClassVar[int] = 2
    is_max: ClassVar[bool] = False


@dataclass(frozen=True, repr=False)
class AveragePooling3D(_Pooling):
    """The average of each window of volumes, of shape (batch, depth, height, width, channels).

    >>> nn.AveragePooling3D()({}, plugrad.ones((1, 4, 8, 8, 3))).shape
    (1, 2, 4, 4, 3)

    Arguments and errors are as for `MaxPooling2D`, with three spatial axes; the input must hold floats.
    """

    rank: ClassVar[int] = 3
    is_max: ClassVar[bool] = False


@dataclass(frozen=True, repr=False)
class GlobalMaxPooling(Layer):
    """The maximum of each channel over all spatial axes.

    >>> nn.GlobalMaxPooling()({}, plugrad.ones((2, 8, 8, 3))).shape
    (2, 3)

    Raises:
        ShapeError: in a call, the input has fewer than three axes.
    """

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the largest elements, of shape (batch, channels)."""
        x = plugrad.asarray(x)
        return plugrad.max(x, axis=_spatial_axes(self, x))


@dataclass(frozen=True, repr=False)
class GlobalAveragePooling(Layer):
    """The average of each channel over all spatial axes.

    >>> nn.GlobalAveragePooling()({}, plugrad.ones((2, 8, 3))).shape
    (2, 3)

    Raises:
        ShapeError: in a call, the input has fewer than three axes.
    """

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the averages, of shape (batch, channels)."""
        x = plugrad.asarray(x)
        return plugrad.mean(x, axis=_spatial_axes(self, x))


@dataclass(frozen=True, repr=False)
class _AdaptivePooling(Layer):
    """A pooling with a given number of windows along each spatial axis."""

    output_size: SizeOrSizes

    rank: ClassVar[int]
    is_max: ClassVar[bool]

    def __post_init__(self) -> None:
        check_sizes(type(self).__name__, "output_size", self.output_size, self.rank)

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return as many elements along each spatial axis as `output_size` says."""
        x = plugrad.asarray(x)
        if x.ndim != self.rank + 2 or 0 in x.shape[1:-1]:
            raise ShapeError(
                f"{type(self).__name__}: x has shape {x.shape}; it must have {self.rank + 2} axes: the batch, "
                f"{self.rank} spatial ones, which are not empty, and the channels"
            )
        pool = _max_along if self.is_max else _average_along
        for axis, size in enumerate(check_sizes("", "output_size", self.output_size, self.rank), 1):
            if size != x.shape[axis]:  # windows are blocks, so each axis can be pooled on its own
                x = pool(x, axis, _adaptive_windows(x.shape[axis], size))
        return x


def _adaptive_windows(length: int, window_count: int) -> list[tuple[int, int]]:
    """Return the start and end of `window_count` windows that cover an axis, as in torch.nn.AdaptiveAvgPool1d."""
    return [
        (i * length // window_count, -(-(i + 1) * length // window_count))
        for i in range(window_count)
    ]


def _average_along(x: Tensor, axis: int, windows: list[tuple[int, int]]) -> Tensor:
    """Return the averages over windows of an axis."""
    weights = np.zeros((x.shape[axis], len(windows)))
    for column, (first, end) in enumerate(windows):
        weights[first:end, column] = 1 / (end - first)
    matrix = plugrad.asarray(weights, dtype=x.dtype, device=x.backend)
    return plugrad.moveaxis(plugrad.moveaxis(x, axis, -1) @ matrix, -1, axis)


def _max_along(x: Tensor, axis: int, windows: list[tuple[int, int]]) -> Tensor:
    """Return the maxima over windows of an axis."""
    longest = max(end - first for first, end in windows)
    places = [[min(first + i, end - 1) for i in range(longest)] for first, end in windows]
    indices = plugrad.asarray(np.array(places, np.int32), device=x.backend)
    return plugrad.max(plugrad.take(x, indices, axis=axis), axis=axis + 1)


@dataclass(frozen=True, repr=False)
class AdaptiveAveragePooling1D(_AdaptivePooling):
    """The averages over a given number of windows of sequences, of shape (batch, width, channels).

    >>> nn.AdaptiveAveragePooling1D(2)({}, plugrad.asarray([[[1.0], [5.0], [3.0]]]))[0, :, 0]
    tensor([3., 4.], dtype=float32)

    Arguments and errors are as for `AdaptiveMaxPooling2D`, with one spatial axis; the input must hold floats.
    """

    rank: ClassVar[int] = 1
    is_max: ClassVar[bool] = False


@dataclass(frozen=True, repr=False)
class AdaptiveAveragePooling2D(_AdaptivePooling):
    """The averages over a given number of windows of images, of shape (batch, height, width, channels).

    >>> nn.AdaptiveAveragePooling2D((3, 2))({}, plugrad.ones((1, 8, 7, 3))).shape
    (1, 3, 2, 3)

    Arguments and errors are as for `AdaptiveMaxPooling2D`; the input must hold floats.
    """

    rank: ClassVar[int] = 2
    is_max: ClassVar[bool] = False


@dataclass(frozen=True, repr=False)
class AdaptiveAveragePooling3D(_AdaptivePooling):
    """The averages over a given number of windows of volumes, of shape (batch, depth, height, width, channels).

    >>> nn.AdaptiveAveragePooling3D(2)({}, plugrad.ones((1, 3, 8, 7, 3))).shape
    (1, 2, 2, 2, 3)

    Arguments and errors are as for `AdaptiveMaxPooling2D`, with three spatial axes; the input must hold floats.
    """

    rank: ClassVar[int] = 3
    is_max: ClassVar[bool] = False


@dataclass(frozen=True, repr=False)
class AdaptiveMaxPooling1D(_AdaptivePooling):
    """The maxima over a given number of windows of sequences, of shape (batch, width, channels).

    >>> nn.AdaptiveMaxPooling1D(2)({}, plugrad.asarray([[[1.0], [5.0], [3.0], [2.0]]]))[0, :, 0]
    tensor([5., 3.], dtype=float32)

    Arguments and errors are as for `AdaptiveMaxPooling2D`, with one spatial axis.
    """

    rank: ClassVar[int] = 1
    is_max: ClassVar[bool] = True


@dataclass(frozen=True, repr=False)
class AdaptiveMaxPooling2D(_AdaptivePooling):
    """The maxima over a given number of windows of images, of shape (batch, height, width, channels).

    >>> nn.AdaptiveMaxPooling2D(2)({}, plugrad.ones((1, 8, 7, 3))).shape
    (1, 2, 2, 3)

    Window i of an axis of n elements goes from ``floor(i * n / size)`` up to but without ``ceil((i + 1) * n / size)``,
    as in PyTorch, so windows overlap where the size does not divide n.

    Args:
        output_size: the number of windows, one number or one for each spatial axis.

    Raises:
        ArgumentError, ArgumentValueError: it is none of the above.
        ShapeError: in a call, the input has another number of axes, or an empty spatial axis.
        DTypeError: in a call, the input holds bools or complex numbers.
    """

    rank: ClassVar[int] = 2
    is_max: ClassVar[bool] = True


@dataclass(frozen=True, repr=False)
class AdaptiveMaxPooling3D(_AdaptivePooling):
    """The maxima over a given number of windows of volumes, of shape (batch, depth, height, width, channels).

    >>> nn.AdaptiveMaxPooling3D(2)({}, plugrad.ones((1, 3, 8, 7, 3))).shape
    (1, 2, 2, 2, 3)

    Arguments and errors are as for `AdaptiveMaxPooling2D`, with three spatial axes.
    """

    rank: ClassVar[int] = 3
    is_max: ClassVar[bool] = True


def _spatial_axes(layer: Layer, x: Tensor) -> tuple[int, ...]:
    """Return the axes between the batch axis and the channel axis."""
    if x.ndim < 3:
        raise ShapeError(
            f"{type(layer).__name__}: x has shape {x.shape}; it must be (batch, spatial axes …, channels)"
        )
    return tuple(range(1, x.ndim - 1))
