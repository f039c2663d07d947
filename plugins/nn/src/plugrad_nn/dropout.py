"""Layers of random numbers, which act in training only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import plugrad
from plugrad_nn.arguments import check_number
from plugrad_nn.layer import INFERENCE, Layer, Mode, Training

if TYPE_CHECKING:
    from plugrad import Tensor
    from plugrad_nn.parameters import Params


@dataclass(frozen=True, repr=False)
class Dropout(Layer):
    """In training, random elements set to 0 and the rest divided by ``1 - rate`` (Srivastava et al., 2014).

    >>> layer = nn.Dropout(0.5)
    >>> layer({}, plugrad.ones((1, 4)))
    tensor([[1., 1., 1., 1.]], dtype=float32)
    >>> sorted(set(layer({}, plugrad.ones((1, 99)), nn.Training(seed=0))[0].tolist()))
    [0.0, 2.0]

    Args:
        rate: the probability with which an element is set to 0, at least 0 and less than 1.

    Raises:
        ArgumentError: the rate is not a number.
        ArgumentValueError: it is out of range.
        DTypeError: in a call, the input does not hold floats.
    """

    rate: float

    def __post_init__(self) -> None:
        check_number("Dropout", "rate", self.rate, least=0, below=1)

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the result, of the shape of x."""
        self.check_mode(mode)
        if isinstance(mode, Training) and self.rate > 0:
            return plugrad.dropout(x, self.rate, seed=mode.generator())
        return plugrad.asarray(x)


@dataclass(frozen=True, repr=False)
class SpatialDropout(Dropout):
    """In training, random channels set to 0 and the rest divided by ``1 - rate`` (Tompson et al., 2015).

    >>> layer = nn.SpatialDropout(0.5)
    >>> y = layer({}, plugrad.ones((2, 5, 4)), nn.Training(seed=0))
    >>> bool(plugrad.all(y == y[:, :1]))
    True

    Arguments and errors are as for `Dropout`; the axes between the batch and the channels are spatial.
    """

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the result, of the shape of x."""
        x = plugrad.asarray(x)
        if not isinstance(mode, Training) or self.rate == 0:
            return x
        ones = plugrad.ones((x.shape[0], *(1,) * (x.ndim - 2), x.shape[-1]), dtype=x.dtype)
        return x * plugrad.dropout(ones, self.rate, seed=mode.generator())


SELU_SATURATION: Final = -1.7580993408473766
"""The value of SELU for large negative numbers."""


@dataclass(frozen=True, repr=False)
class AlphaDropout(Dropout):
    """In training, random elements set to SELU's saturation value, rescaled to keep mean and variance.

    It keeps activations of `plugrad.selu` normalized (Klambauer et al., 2017).

    >>> layer = nn.AlphaDropout(0.5)
    >>> layer({}, plugrad.ones((1, 4)))
    tensor([[1., 1., 1., 1.]], dtype=float32)
    >>> y = layer({}, plugrad.ones((1, 99)), nn.Training(seed=0))
    >>> [f"{number:.4f}" for number in sorted(set(y[0].tolist()))]
    ['-0.7792', '1.6656']

    Arguments and errors are as for `Dropout`.
    """

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the result, of the shape of x."""
        self.check_mode(mode)
        x = plugrad.asarray(x)
        if not isinstance(mode, Training) or self.rate == 0:
            return x
        kept = plugrad.dropout(plugrad.ones_like(x), self.rate, seed=mode.generator()) > 0
        scale = 1 / math.sqrt((1 - self.rate) * (1 + self.rate * SELU_SATURATION**2))
        return plugrad.where(kept, x, SELU_SATURATION) * scale - scale * SELU_SATURATION * self.rate


@dataclass(frozen=True, repr=False)
class GaussianNoise(Layer):
    """In training, each element plus normally distributed noise.

    >>> layer = nn.GaussianNoise(0.1)
    >>> layer({}, plugrad.ones((1, 2)))
    tensor([[1., 1.]], dtype=float32)

    Args:
        stddev: the standard deviation, 0 or more.

    Raises:
        ArgumentError: it is not a number.
        ArgumentValueError: it is negative.
    """

    stddev: float

    def __post_init__(self) -> None:
        check_number("GaussianNoise", "stddev", self.stddev, least=0)

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the result, of the shape of x."""
        x = plugrad.asarray(x)
        if not isinstance(mode, Training):
            return x
        return x + mode.generator().normal(x.shape, 0.0, self.stddev, dtype=x.dtype)


@dataclass(frozen=True, repr=False)
class GaussianDropout(Layer):
    """In training, each element times noise around 1 with the variance of dropout (Srivastava et al., 2014).

    >>> layer = nn.GaussianDropout(0.5)
    >>> layer({}, plugrad.ones((1, 2)))
    tensor([[1., 1.]], dtype=float32)

    Args:
        rate: the numbers have the standard deviation ``sqrt(rate / (1 - rate))``; at least 0 and less than 1.

    Raises:
        ArgumentError: the rate is not a number.
        ArgumentValueError: it is out of range.
    """

    rate: float

    def __post_init__(self) -> None:
        check_number("GaussianDropout", "rate", self.rate, least=0, below=1)

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the result, of the shape of x."""
        x = plugrad.asarray(x)
        if not isinstance(mode, Training):
            return x
        deviation = math.sqrt(self.rate / (1 - self.rate))
        return x * mode.generator().normal(x.shape, 1.0, deviation, dtype=x.dtype)
