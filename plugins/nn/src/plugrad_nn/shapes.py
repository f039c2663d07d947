"""Layers that change the shape of examples: reshape, permute, pad, crop and enlarge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, cast

import plugrad
from plugrad.extend import ArgumentError, ArgumentValueError, ShapeError
from plugrad_nn.arguments import (
    SizeOrSizes,
    check_choice,
    check_integer,
    check_integers,
    check_number,
    check_sizes,
)
from plugrad_nn.layer import INFERENCE, Layer, Mode

if TYPE_CHECKING:
    from plugrad import Tensor
    from plugrad_nn.parameters import Params

PaddingOrCropping: TypeAlias = int | Sequence[int | Sequence[int]]
"""One number for all sides, one for both sides of each axis, or a pair (before, after) for each axis."""


@dataclass(frozen=True, repr=False)
class Reshape(Layer):
    """The elements of each example in a new shape.

    >>> nn.Reshape((2, -1))({}, plugrad.ones((5, 6))).shape
    (5, 2, 3)

    Args:
        target_shape: the shape of one result, without the axis of the batch. One size may be -1 and is inferred.

    Raises:
        ArgumentError, ArgumentValueError: it is not a tuple of integers, or has more than one -1.
        ShapeError: in a call, an example has another number of elements.
    """

    target_shape: tuple[int, ...]

    def __post_init__(self) -> None:
        sizes = check_integers("Reshape", "target_shape", self.target_shape, -1)
        if sizes.count(-1) > 1:
            raise ArgumentValueError(
                f"Reshape: target_shape={sizes} has more than one -1; only one size can be inferred"
            )

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return x in the shape (batch, *target_shape)."""
        x = _add_batch_axis("Reshape", x)
        size = math.prod(x.shape[1:])
        known = math.prod(n for n in self.target_shape if n >= 0)
        sizes = tuple(size // known if n < 0 and known else n for n in self.target_shape)
        if math.prod(sizes) != size or -1 in sizes:
            raise ShapeError(
                f"Reshape: one example has shape {x.shape[1:]}, which does not have as many elements as "
                f"target_shape={tuple(self.target_shape)}"
            )
        return plugrad.reshape(x, (x.shape[0], *sizes))


@dataclass(frozen=True, repr=False)
class Permute(Layer):
    """The axes of each example, permuted.

    >>> nn.Permute((2, 1))({}, plugrad.ones((5, 3, 4))).shape
    (5, 4, 3)

    Args:
        dims: the axes of an example, from 1 on (the batch is axis 0), in the order of the result.

    Raises:
        ArgumentError, ArgumentValueError: it is not a permutation of 1, 2 and so on.
        ShapeError: in a call, an example has another number of axes.
    """

    dims: tuple[int, ...]

    def __post_init__(self) -> None:
        dims = check_integers("Permute", "dims", self.dims, 1)
        if sorted(dims) != list(range(1, len(dims) + 1)):
            raise ArgumentValueError(
                f"Permute: dims={dims} must have each axis of an example once, from 1 to {len(dims)}"
            )

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return x with its axes in the new order."""
        x = plugrad.asarray(x)
        if x.ndim != len(self.dims) + 1:
            raise ShapeError(
                f"Permute: x has shape {x.shape}; it must have the axis of the batch and {len(self.dims)} more"
            )
        return plugrad.permute_dims(x, (0, *self.dims))


@dataclass(frozen=True, repr=False)
class RepeatVector(Layer):
    """Vectors repeated as the elements of a sequence.

    >>> nn.RepeatVector(3)({}, plugrad.asarray([[1.0, 2.0]])).tolist()
    [[[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]]

    Args:
        n: the length of a sequence.

    Raises:
        ArgumentError, ArgumentValueError: it is not an integer, 1 or more.
        ShapeError: in a call, the input is not (batch, features).
    """

    n: int

    def __post_init__(self) -> None:
        check_integer("RepeatVector", "n", self.n, 1)

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the sequences, of shape (batch, n, features)."""
        x = plugrad.asarray(x)
        if x.ndim != 2:
            raise ShapeError(f"RepeatVector: x has shape {x.shape}; it must be (batch, features)")
        return plugrad.broadcast_to(x[:, None], (x.shape[0], self.n, x.shape[1]))


@dataclass(frozen=True, repr=False)
class Rescaling(Layer):
    """Each element times a factor plus an offset, for example to map pixels from [0, 255] to [-1, 1].

    >>> nn.Rescaling(1 / 127.5, -1.0)({}, plugrad.asarray([[0.0, 255.0]])).tolist()
    [[-1.0, 1.0]]

    Args:
        scale: the factor.
        offset: what is added.

    Raises:
        ArgumentError, ArgumentValueError: one is not a finite number.
    """

    scale: float
    offset: float = 0.0

    def __post_init__(self) -> None:
        check_number("Rescaling", "scale", self.scale)
        check_number("Rescaling", "offset", self.offset)

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the result, of the shape of x."""
        return plugrad.asarray(x) * self.scale + self.offset


@dataclass(frozen=True, repr=False)
class _MarginLayer(Layer):
    """A layer that pads or crops spatial axes."""

    rank: ClassVar[int]

    def margin_pairs(self, name: str, margins: PaddingOrCropping) -> list[tuple[int, int]]:
        """Return margins as pairs (before, after), one for each spatial axis.

        Raises:
            ArgumentError, ArgumentValueError: they are given in no form that is described.
        """
        owner = type(self).__name__
        each: Any = margins if isinstance(margins, Sequence) else (margins,) * self.rank
        if self.rank == 1 and len(each) == 2 and not isinstance(each[0], Sequence):
            each = (tuple(each),)  # one axis: a pair is (before, after)
        if len(each) != self.rank:
            raise ArgumentValueError(
                f"{owner}: {name}={margins!r} must be one number, or one entry for each of {self.rank} spatial axes"
            )
        found: list[tuple[int, int]] = []
        for entry in each:
            sides = cast("Any", entry) if isinstance(entry, Sequence) else (entry, entry)
            before_and_after = check_integers(owner, name, sides)
            if len(before_and_after) != 2:
                raise ArgumentValueError(
                    f"{owner}: {name}={margins!r} must have pairs (before, after)"
                )
            found.append((before_and_after[0], before_and_after[1]))
        return found

    def check_rank(self, x: Any) -> Tensor:
        """Return x as a tensor, checked to have a batch axis, spatial axes and channels.

        Raises:
            ShapeError: it has other axes.
        """
        x = plugrad.asarray(x)
        if x.ndim != self.rank + 2:
            raise ShapeError(
                f"{type(self).__name__}: x has shape {x.shape}; it must have {self.rank + 2} axes: the batch, "
                f"{self.rank} spatial ones and the channels"
            )
        return x


@dataclass(frozen=True, repr=False)
class _ZeroPadding(_MarginLayer):
    """A layer that adds zeros around spatial axes."""

    padding: PaddingOrCropping = 1

    def __post_init__(self) -> None:
        self.margin_pairs("padding", self.padding)

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return x with zeros around its spatial axes."""
        x = self.check_rank(x)
        return plugrad.pad(x, [(0, 0), *self.margin_pairs("padding", self.padding), (0, 0)])


@dataclass(frozen=True, repr=False)
class ZeroPadding1D(_ZeroPadding):
    """Zeros before and after sequences, of shape (batch, width, channels).

    >>> nn.ZeroPadding1D((2, 0))({}, plugrad.ones((1, 3, 4))).shape
    (1, 5, 4)

    Arguments and errors are as for `ZeroPadding2D`, with one spatial axis.
    """

    rank: ClassVar[int] = 1


@dataclass(frozen=True, repr=False)
class ZeroPadding2D(_ZeroPadding):
    """Zeros around images, of shape (batch, height, width, channels).

    >>> nn.ZeroPadding2D(((1, 0), (2, 2)))({}, plugrad.ones((1, 3, 4, 2))).shape
    (1, 4, 8, 2)

    Args:
        padding: the number of zeros: one number, one for each spatial axis, or a pair (before, after) for each.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        ShapeError: in a call, the input has another number of axes.
    """

    rank: ClassVar[int] = 2


@dataclass(frozen=True, repr=False)
class ZeroPadding3D(_ZeroPadding):
    """Zeros around volumes, of shape (batch, depth, height, width, channels).

    >>> nn.ZeroPadding3D()({}, plugrad.ones((1, 2, 3, 4, 2))).shape
    (1, 4, 5, 6, 2)

    Arguments and errors are as for `ZeroPadding2D`, with three spatial axes.
    """

    rank: ClassVar[int] = 3


@dataclass(frozen=True, repr=False)
class _Cropping(_MarginLayer):
    """A layer that removes elements at both ends of spatial axes."""

    cropping: PaddingOrCropping = 1

    def __post_init__(self) -> None:
        self.margin_pairs("cropping", self.cropping)

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the middle of x."""
        x = self.check_rank(x)
        pairs = self.margin_pairs("cropping", self.cropping)
        sizes = [n - a - b for n, (a, b) in zip(x.shape[1:-1], pairs, strict=True)]
        if min(sizes) < 0:
            raise ShapeError(
                f"{type(self).__name__}: x has shape {x.shape}, and cropping={self.cropping!r} takes more from a "
                "spatial axis than it has"
            )
        begin = (0, *(a for a, _ in pairs), 0)
        return plugrad.slice(x, begin, (x.shape[0], *sizes, x.shape[-1]))


@dataclass(frozen=True, repr=False)
class Cropping1D(_Cropping):
    """Sequences, of shape (batch, width, channels), with elements removed at both ends.

    >>> nn.Cropping1D((2, 0))({}, plugrad.ones((1, 5, 4))).shape
    (1, 3, 4)

    Arguments and errors are as for `Cropping2D`, with one spatial axis.
    """

    rank: ClassVar[int] = 1


@dataclass(frozen=True, repr=False)
class Cropping2D(_Cropping):
    """Images, of shape (batch, height, width, channels), with their margins removed.

    >>> nn.Cropping2D(((1, 0), (2, 2)))({}, plugrad.ones((1, 4, 8, 2))).shape
    (1, 3, 4, 2)

    Args:
        cropping: what to leave out: one number, one for each spatial axis, or a pair (before, after) for each.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        ShapeError: in a call, the input has another number of axes, or is smaller than the margins.
    """

    rank: ClassVar[int] = 2


@dataclass(frozen=True, repr=False)
class Cropping3D(_Cropping):
    """Volumes, of shape (batch, depth, height, width, channels), with their margins removed.

    >>> nn.Cropping3D()({}, plugrad.ones((1, 4, 5, 6, 2))).shape
    (1, 2, 3, 4, 2)

    Arguments and errors are as for `Cropping2D`, with three spatial axes.
    """

    rank: ClassVar[int] = 3


@dataclass(frozen=True, repr=False)
class _UpSampling(_MarginLayer):
    """A layer that repeats elements along spatial axes."""

    size: SizeOrSizes = 2

    def __post_init__(self) -> None:
        check_sizes(type(self).__name__, "size", self.size, self.rank)

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return x with each element repeated along the spatial axes."""
        x = self.check_rank(x)
        for axis, times in enumerate(check_sizes("", "size", self.size, self.rank), 1):
            if times > 1:
                x = plugrad.repeat(x, times, axis=axis)
        return x


@dataclass(frozen=True, repr=False)
class UpSampling1D(_UpSampling):
    """Sequences, of shape (batch, width, channels), with each element repeated.

    >>> nn.UpSampling1D()({}, plugrad.asarray([[[1.0], [2.0]]]))[0, :, 0]
    tensor([1., 1., 2., 2.], dtype=float32)

    Args:
        size: how often each element occurs.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        ShapeError: in a call, the input has another number of axes.
    """

    rank: ClassVar[int] = 1


INTERPOLATIONS: Final = ("nearest", "bilinear", "bicubic")
"""The interpolations of `UpSampling2D`."""


@dataclass(frozen=True, repr=False)
class UpSampling2D(_UpSampling):
    """Images, of shape (batch, height, width, channels), enlarged by integer factors.

    >>> nn.UpSampling2D((2, 3))({}, plugrad.ones((1, 4, 5, 2))).shape
    (1, 8, 15, 2)

    Args:
        size: the factor, one number or (height, width).
        interpolation: "nearest", which repeats each element, or "bilinear" or "bicubic", as `plugrad.image.resize`
            computes them.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        ShapeError: in a call, the input has another number of axes.
    """

    interpolation: str = "nearest"

    rank: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("UpSampling2D", "interpolation", self.interpolation, INTERPOLATIONS)

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the enlarged images."""
        if self.interpolation == "nearest":
            return super().__call__(params, x, mode)
        x = self.check_rank(x)
        factors = check_sizes("", "size", self.size, 2)
        sizes = [n * factor for n, factor in zip(x.shape[1:3], factors, strict=True)]
        return plugrad.image.resize(
            x, sizes, "linear" if self.interpolation == "bilinear" else "cubic"
        )


@dataclass(frozen=True, repr=False)
class UpSampling3D(_UpSampling):
    """Volumes, of shape (batch, depth, height, width, channels), with each element repeated.

    >>> nn.UpSampling3D()({}, plugrad.ones((1, 2, 3, 4, 2))).shape
    (1, 4, 6, 8, 2)

    Arguments and errors are as for `UpSampling1D`, with a factor for each of three spatial axes.
    """

    rank: ClassVar[int] = 3


@dataclass(frozen=True, repr=False)
class PixelShuffle(Layer):
    """Images enlarged by a rearrangement of channels into blocks of pixels (Shi et al., 2016).

    >>> nn.PixelShuffle(2)({}, plugrad.ones((1, 3, 3, 8))).shape
    (1, 6, 6, 2)

    The factor**2 numbers of an output channel are neighbours among the input channels, row by row, as in
    torch.nn.PixelShuffle. Channels are the last axis, so (batch, height, width, channels * factor**2) becomes
    (batch, height * factor, width * factor, channels).

    Args:
        factor: by how much the images grow.

    Raises:
        ArgumentError, ArgumentValueError: the factor is not an integer of at least 1.
        ShapeError: in a call, the input has other axes, or its channels are not divided by factor**2.
    """

    factor: int

    def __post_init__(self) -> None:
        check_integer("PixelShuffle", "factor", self.factor, 1)

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the larger images."""
        x, f = plugrad.asarray(x), self.factor
        if x.ndim != 4 or x.shape[-1] % f**2:
            raise ShapeError(
                f"PixelShuffle: x has shape {x.shape}; it must be (batch, height, width, channels), with a number of "
                f"channels that {f**2} divides"
            )
        batch, height, width, channels = x.shape
        blocks = plugrad.reshape(x, (batch, height, width, channels // f**2, f, f))
        moved = plugrad.permute_dims(blocks, (0, 1, 4, 2, 5, 3))
        return plugrad.reshape(moved, (batch, height * f, width * f, channels // f**2))


def _add_batch_axis(name: str, x: Any) -> Tensor:
    """Return x as a tensor, checked to have the axis of the batch."""
    x = plugrad.asarray(x)
    if not x.ndim:
        raise ArgumentError(f"{name}: x must have the axis of the batch; it is 0-d")
    return x
