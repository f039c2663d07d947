"""Random changes of images and labels, on the device: a model that sees each example differently learns more of it.

Images have the shape (batch, height, width, channels), and each of a batch is changed in its own way. A `seed` is an
integer, a `plugrad.random.Generator`, which goes on with each call, or None for the shared one. A generator draws new
numbers in each call of a traced step, too. The layer `Augment` does so in training only:

>>> model = nn.Sequential(nn.Augment(nn.augment.flip), nn.Flatten(), nn.Dense(10))
>>> params = model.init(0, (32, 32, 3))
>>> model(params, plugrad.ones((2, 32, 32, 3)), nn.Training(seed=1)).shape
(2, 10)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import plugrad
from plugrad.extend import ArgumentError, ArgumentValueError, DTypeError, ShapeError
from plugrad_nn.arguments import check_function, check_number, check_sizes
from plugrad_nn.layer import INFERENCE, Layer, Mode, Training

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad import Tensor
    from plugrad_nn.parameters import Params

SeedLike: TypeAlias = int | plugrad.random.Generator | None
"""A seed, a generator of random numbers, or None for the default generator."""


def flip(
    images: Any, *, seed: SeedLike = None, horizontal: bool = True, vertical: bool = False
) -> Tensor:
    """Images of which a random half is mirrored.

    >>> images = plugrad.asarray([[[[1.0], [2.0]]]] * 4)
    >>> nn.augment.flip(images, seed=7)[:, 0, :, 0].tolist()
    [[2.0, 1.0], [2.0, 1.0], [1.0, 2.0], [1.0, 2.0]]

    Args:
        images: see `plugrad_nn.augment`; any dtype.
        seed: likewise.
        horizontal: whether left and right are exchanged.
        vertical: whether top and bottom are, independently.

    Raises:
        ShapeError: the images do not have four axes.
        ArgumentError, ArgumentValueError: the seed is none.
    """
    images, generator = _check_images("flip", images), _as_generator("flip", seed)
    for axis, is_wanted in ((2, horizontal), (1, vertical)):
        if is_wanted:
            chosen = generator.bernoulli((images.shape[0], 1, 1, 1), device=images.backend)
            images = plugrad.where(chosen != 0, plugrad.flip(images, axis=axis), images)
    return images


def crop(
    images: Any, size: int | tuple[int, int], *, padding: int = 0, seed: SeedLike = None
) -> Tensor:
    """A crop of each image at a random position.

    >>> images = plugrad.reshape(plugrad.arange(9.0), (1, 3, 3, 1))
    >>> nn.augment.crop(images, 2, seed=0)[0, :, :, 0].tolist()
    [[3.0, 4.0], [6.0, 7.0]]

    Args:
        images: see `plugrad_nn.augment`; any dtype of numbers.
        size: the size of the parts, one number or (height, width).
        padding: how many zeros are put around each image before.
        seed: see `plugrad_nn.augment`.

    Raises:
        ShapeError: the images do not have four axes, or are smaller than the parts.
        ArgumentError, ArgumentValueError: another argument is none of the above.
    """
    images, generator = _check_images("crop", images), _as_generator("crop", seed)
    sizes = check_sizes("crop", "size", size, 2)
    if padding:
        border = check_sizes("crop", "padding", padding, 1) * 2
        images = plugrad.pad(images, [(0, 0), border, border, (0, 0)])
    for axis, part in zip((1, 2), sizes, strict=True):
        places = images.shape[axis] - part + 1
        if places < 1:
            raise ShapeError(
                f"crop: images of height and width {images.shape[1:3]} are smaller than parts of {sizes}; give padding"
            )
        start = generator.integers((images.shape[0], 1), 0, places, device=images.backend)
        chosen = plugrad.astype(start, plugrad.int32) + plugrad.arange(
            part, dtype=plugrad.int32, device=images.backend
        )
        images = plugrad.take(images, chosen, axis=axis, batch_dims=1)
    return images


def rotate(
    images: Any, degrees: float, *, seed: SeedLike = None, fill_value: float = 0.0
) -> Tensor:
    """Images rotated around their centre by random angles.

    >>> nn.augment.rotate(plugrad.ones((2, 8, 8, 3)), degrees=20, seed=0).shape
    (2, 8, 8, 3)

    Pixels are interpolated between the nearest four.

    Args:
        images: see `plugrad_nn.augment`; integers become float32.
        degrees: the largest angle, in both directions.
        seed: see `plugrad_nn.augment`.
        fill_value: what comes into the corners.

    Raises:
        ShapeError: the images do not have four axes, or no pixels.
        ArgumentError, ArgumentValueError: an angle is not a number of 0 or more, or the seed is none.
    """
    images, generator = _check_images("rotate", images), _as_generator("rotate", seed)
    largest = math.radians(check_number("rotate", "degrees", degrees, least=0))
    count, height, width, _ = images.shape
    angle = generator.uniform((count,), -largest, largest, device=images.backend)
    cos, sin = plugrad.cos(angle), plugrad.sin(angle)
    x, y = (width - 1) / 2, (height - 1) / 2
    zero = plugrad.zeros_like(angle)
    rows = [cos, -sin, x - x * cos + y * sin, sin, cos, y - x * sin - y * cos, zero, zero]
    return plugrad.image.transform(
        images, plugrad.stack(rows, axis=1), interpolation="bilinear", fill_value=fill_value
    )


def adjust_colors(
    images: Any,
    *,
    brightness: float = 0.0,
    contrast: float = 0.0,
    saturation: float = 0.0,
    seed: SeedLike = None,
) -> Tensor:
    """Images with brightness, contrast and saturation multiplied by random factors, clipped to [0, 1].

    >>> images = plugrad.full((1, 1, 1, 3), 0.5)
    >>> brighter = nn.augment.adjust_colors(images, brightness=0.4, seed=0)
    >>> 0.3 <= brighter[0, 0, 0, 0].item() <= 0.7
    True

    A factor is between ``1 - b`` and ``1 + b``. Brightness multiplies all values. Contrast multiplies what differs from
    the mean grey of an image, and saturation what differs from the grey of a pixel, ``0.2989 r + 0.587 g + 0.114 b``.

    Args:
        images: floats from 0 to 1, of one or three channels.
        brightness: the largest change of the factor, 0 or more; 0 changes nothing.
        contrast: likewise.
        saturation: likewise; images of one channel have none.
        seed: see `plugrad_nn.augment`.

    Raises:
        ShapeError: the images do not have four axes, or another number of channels.
        DTypeError: they are not floats.
        ArgumentError, ArgumentValueError: another argument is none of the above.
    """
    images = _check_images("adjust_colors", images)
    if not plugrad.isdtype(images.dtype, "real floating"):
        raise DTypeError(
            f"adjust_colors: images are {images.dtype}; they must be floats from 0 to 1, as images / 255 are"
        )
    if images.shape[3] not in (1, 3):
        raise ShapeError(
            f"adjust_colors: images have {images.shape[3]} channels; they must have one or three"
        )
    generator = _as_generator("adjust_colors", seed)
    changes = {"brightness": brightness, "contrast": contrast, "saturation": saturation}
    for name, change in changes.items():
        check_number("adjust_colors", name, change, least=0)
        if not change or (name == "saturation" and images.shape[3] == 1):
            continue
        low = max(0.0, 1 - change)
        factor = generator.uniform(
            (images.shape[0], 1, 1, 1), low, 1 + change, device=images.backend
        )
        around: Any = 0.0
        if name != "brightness":
            around = images if images.shape[3] == 1 else plugrad.image.rgb_to_grayscale(images)
        if name == "contrast":
            around = plugrad.mean(around, axis=(1, 2, 3), keepdims=True)
        factor = plugrad.astype(factor, images.dtype)
        images = plugrad.clip(around + factor * (images - around), 0, 1)
    return images


def mixup(
    x: Any, labels: Any, *, alpha: float = 0.2, seed: SeedLike = None
) -> tuple[Tensor, Tensor]:
    """Weighted averages of random pairs of examples, and of their labels (Zhang et al., "mixup", 2018).

    >>> x, y = nn.augment.mixup(plugrad.eye(3), plugrad.eye(3), seed=0)
    >>> bool(plugrad.all(x == y)), plugrad.sum(y, axis=1).numpy().round(4).tolist()
    (True, [1.0, 1.0, 1.0])

    Each example is mixed with another one of its batch, with a weight of its own from the distribution Beta(alpha,
    alpha).

    Args:
        x: floats whose first axis has the examples.
        labels: floats, likewise, such as rows of `plugrad.one_hot`.
        alpha: how evenly they are mixed, more than 0: with 1, all weights are equally likely, and with less, those near
            0 and 1 are more so.
        seed: see `plugrad_nn.augment`.

    Raises:
        ShapeError: there are not as many labels as examples.
        DTypeError: examples or labels are not floats.
        ArgumentError, ArgumentValueError: another argument is none of the above.
    """
    x, labels = _check_pairs("mixup", x, labels)
    generator = _as_generator("mixup", seed)
    weight = _draw_weights("mixup", alpha, generator, x)
    order = _draw_permutation(generator, x)
    return _average_example_pairs(x, order, weight), _average_example_pairs(labels, order, weight)


def cutmix(
    images: Any, labels: Any, *, alpha: float = 1.0, seed: SeedLike = None
) -> tuple[Tensor, Tensor]:
    """Images with a rectangle pasted from another one, and labels mixed by area (Yun et al., "CutMix", 2019).

    >>> images, labels = plugrad.ones((4, 8, 8, 3)), plugrad.one_hot([0, 1, 2, 3], 4)
    >>> nn.augment.cutmix(images, labels, seed=0)[1].shape
    (4, 4)

    The rectangle has the form of the image, and a random middle; what is beyond the image is cut off. Its area before
    has the distribution Beta(alpha, alpha).

    Args:
        images: see `plugrad_nn.augment`; any dtype.
        labels: floats, such as rows of `plugrad.one_hot`.
        alpha: a number more than 0, as for `mixup`.
        seed: see `plugrad_nn.augment`.

    Raises:
        ShapeError: the images do not have four axes, or there are not as many labels.
        DTypeError: the labels are not floats.
        ArgumentError, ArgumentValueError: another argument is none of the above.
    """
    images = _check_images("cutmix", images)
    _, labels = _check_pairs("cutmix", images, labels, any_dtype=True)
    generator = _as_generator("cutmix", seed)
    half = plugrad.sqrt(1 - _draw_weights("cutmix", alpha, generator, images)) / 2
    order = _draw_permutation(generator, images)
    inside: list[Tensor] = []
    for size in images.shape[1:3]:
        middle = generator.uniform(half.shape, device=images.backend)
        places = (plugrad.arange(size, dtype=plugrad.float32, device=images.backend) + 0.5) / size
        distances = plugrad.abs(places - plugrad.expand_dims(middle, axis=1))
        inside.append(distances < plugrad.expand_dims(half, axis=1))
    rows, columns = plugrad.expand_dims(inside[0], axis=2), plugrad.expand_dims(inside[1], axis=1)
    is_other = plugrad.logical_and(rows, columns)
    kept = 1 - plugrad.mean(plugrad.astype(is_other, plugrad.float32), axis=(1, 2))
    other = plugrad.take(images, order, axis=0)
    mixed = plugrad.where(plugrad.expand_dims(is_other, axis=3), other, images)
    return mixed, _average_example_pairs(labels, order, kept)


@dataclass(frozen=True, repr=False)
class Augment(Layer):
    """Images changed by functions in training, and unchanged in inference.

    >>> import functools
    >>> layer = nn.Augment(nn.augment.flip, functools.partial(nn.augment.crop, size=28, padding=2))
    >>> layer({}, plugrad.ones((1, 28, 28, 1)), nn.Training(seed=0)).shape
    (1, 28, 28, 1)

    All draw from the mode's random numbers.

    Args:
        functions: functions of images with an argument `seed`, as those of `plugrad_nn.augment`, in their order.

    Raises:
        ArgumentError: there is no function, or one is none.
    """

    functions: tuple[Callable[..., Tensor], ...]

    def __init__(self, *functions: Callable[..., Tensor]) -> None:
        if not functions:
            raise ArgumentError("Augment: give one function or more, such as nn.augment.flip")
        for function in functions:
            check_function("Augment", "function", function)
        object.__setattr__(self, "functions", functions)

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the images."""
        self.check_mode(mode)
        x = plugrad.asarray(x)
        if isinstance(mode, Training):
            generator = mode.generator()
            for function in self.functions:
                x = function(x, seed=generator)
        return x


def _check_images(op: str, images: Any) -> Tensor:
    """Return images as a tensor, checked."""
    images = plugrad.asarray(images)
    if images.ndim != 4:
        raise ShapeError(
            f"{op}: images must have shape (batch, height, width, channels), not {images.shape}"
        )
    return images


def _check_pairs(op: str, x: Any, labels: Any, *, any_dtype: bool = False) -> tuple[Tensor, Tensor]:
    """Return examples and labels as tensors, checked to be floats and equally many."""
    x = plugrad.asarray(x)
    if not isinstance(labels, plugrad.Tensor):
        labels = plugrad.asarray(labels, device=x.backend)
    for name, values in {"x": x, "labels": labels}.items():
        if not plugrad.isdtype(values.dtype, "real floating") and not (any_dtype and name == "x"):
            raise DTypeError(
                f"{op}: {name} are {values.dtype}; they must be floats, such as plugrad.one_hot(labels, classes)"
            )
    if not x.ndim or not labels.ndim or x.shape[0] != labels.shape[0]:
        raise ShapeError(
            f"{op}: shapes {x.shape} and {labels.shape}; the first axes must have one size, the number of examples"
        )
    return x, labels


def _as_generator(op: str, seed: Any) -> plugrad.random.Generator:
    """Return the random number generator for a seed."""
    if isinstance(seed, plugrad.random.Generator):
        return seed
    if seed is None:
        return plugrad.random.default
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ArgumentError(f"{op}: seed={seed!r:.80} must be an integer or a Generator")
    return plugrad.random.Generator(seed)


def _draw_weights(op: str, alpha: float, generator: plugrad.random.Generator, x: Tensor) -> Tensor:
    """Draw a number per example from Beta(alpha, alpha), as a ratio of gamma variates."""
    if check_number(op, "alpha", alpha, least=0) == 0:
        raise ArgumentValueError(f"{op}: alpha=0 must be more than 0")
    first, second = (
        generator.gamma((x.shape[0],), alpha, dtype=plugrad.float32, device=x.backend)
        for _ in range(2)
    )
    return plugrad.div_no_nan(first, first + second)


def _draw_permutation(generator: plugrad.random.Generator, x: Tensor) -> Tensor:
    """Draw a random order of the examples in x."""
    places = plugrad.arange(x.shape[0], dtype=plugrad.int32, device=x.backend)
    return generator.permutation(places, device=x.backend)


def _average_example_pairs(x: Tensor, partner_indices: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted averages of examples and of their partners at `partner_indices`."""
    weights = plugrad.astype(weights, x.dtype).reshape((-1, *(1,) * (x.ndim - 1)))
    return weights * x + (1 - weights) * plugrad.take(x, partner_indices, axis=0)
