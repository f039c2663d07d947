"""Layers that normalize activations, and then scale and shift them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import plugrad
from plugrad.extend import HALVES, ArgumentValueError, ShapeError
from plugrad_nn import initializers
from plugrad_nn.arguments import check_flag, check_integer, check_number
from plugrad_nn.layer import INFERENCE, Layer, Mode, Training

if TYPE_CHECKING:
    from plugrad import Tensor
    from plugrad.extend import DType
    from plugrad.random import Generator
    from plugrad_nn.parameters import Params


@dataclass(frozen=True, repr=False)
class _Normalization(Layer):
    """A normalization with a trainable scale and offset."""

    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_number(name, "epsilon", self.epsilon, least=0)
        check_flag(name, "center", self.center)
        check_flag(name, "scale", self.scale)

    def build(self, generator: Generator, shape: tuple[int, ...], dtype: DType) -> Params:
        """Return the initial scale and offset."""
        self.check_axes(shape, 0, "(…, features)")
        size = shape[-1:]
        params: Params = {}
        if self.scale:
            params["gamma"] = initializers.ones(generator, size, dtype)
        if self.center:
            params["beta"] = initializers.zeros(generator, size, dtype)
        return params

    def scale_and_offset(self, params: Params, x: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return scale and offset; either may be None.

        Raises:
            ShapeError: they are not for the features of x.
        """
        gamma = self.parameter(params, "gamma") if self.scale else None
        beta = self.parameter(params, "beta") if self.center else None
        for part in (gamma, beta):
            if part is not None and (x.ndim < 2 or x.shape[-1:] != part.shape):
                raise ShapeError(
                    f"{type(self).__name__}: x has shape {x.shape}; it must be (batch, …, {part.size}), "
                    "because the parameters are for as many features"
                )
        return gamma, beta


@dataclass(frozen=True, repr=False)
class LayerNorm(_Normalization):
    """Vectors along the last axis with mean 0 and variance 1, then scaled and shifted (Ba et al., 2016).

    >>> layer = nn.LayerNorm()
    >>> plugrad.round(layer(layer.init(0, (2,)), plugrad.asarray([[1.0, 3.0], [0.0, 200.0]])))
    tensor([[-1.,  1.],
            [-1.,  1.]], dtype=float32)

    Parameters: "gamma" and "beta", of shape (features,).

    Args:
        epsilon: a number that is added to the variance, so that it is not 0.
        center: whether `beta` is added.
        scale: whether the result is multiplied by `gamma`.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        ShapeError: in a call, the input does not have the features of the parameters.
    """

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the result, of the shape of x."""
        x = plugrad.asarray(x)
        gamma, beta = self.scale_and_offset(params, x)
        return plugrad.layer_norm(x, offset=beta, scale=gamma, variance_epsilon=self.epsilon)


@dataclass(frozen=True, repr=False)
class GroupNorm(_Normalization):
    """Groups of an example's channels with mean 0 and variance 1, then scaled and shifted (Wu and He, 2018).

    >>> layer = nn.GroupNorm(groups=2)
    >>> layer(layer.init(0, (8, 8, 6)), plugrad.ones((1, 8, 8, 6))).shape
    (1, 8, 8, 6)

    Mean and variance are those of all spatial axes and of the channels of the group. Parameters: "gamma"
    and "beta", of shape (channels,).

    Args:
        epsilon: a number that is added to the variance, so that it is not 0.
        center: whether `beta` is added.
        scale: whether the result is multiplied by `gamma`.
        groups: the number of groups, which divides the number of channels.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        ShapeError: the number of groups does not divide the number of channels.
    """

    groups: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("GroupNorm", "groups", self.groups, 1)

    def build(self, generator: Generator, shape: tuple[int, ...], dtype: DType) -> Params:
        """Return the initial scale and offset."""
        params = super().build(generator, shape, dtype)
        self._check_channels(shape)
        return params

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the result, of the shape of x."""
        x = plugrad.asarray(x)
        gamma, beta = self.scale_and_offset(params, x)
        self._check_channels(x.shape)
        parts = plugrad.reshape(x, (*x.shape[:-1], self.groups, x.shape[-1] // self.groups))
        axes = (*range(1, x.ndim - 1), x.ndim)
        mean, variance = plugrad.moments(parts, axis=axes, keepdims=True)
        y = plugrad.batch_norm(parts, mean, variance, variance_epsilon=self.epsilon)
        y = plugrad.reshape(y, x.shape)
        y = y if gamma is None else y * gamma
        return y if beta is None else y + beta

    def _check_channels(self, shape: tuple[int, ...]) -> None:
        if shape[-1] % self.groups:
            raise ShapeError(
                f"GroupNorm: groups={self.groups} does not divide the {shape[-1]} channels of the shape {shape}"
            )


@dataclass(frozen=True, repr=False)
class BatchNorm(_Normalization):
    """Channels with mean 0 and variance 1 over the batch, then scaled and shifted (Ioffe and Szegedy, 2015).

    In training, mean and variance are those of the batch, and their moving averages are put aside for
    `Training.commit`. In inference they are the moving averages.

    >>> layer = nn.BatchNorm(momentum=0.5)
    >>> params = layer.init(0, (1,))
    >>> training = nn.Training(seed=0)
    >>> plugrad.round(layer(params, plugrad.asarray([[1.0], [3.0]]), training)[:, 0])
    tensor([-1.,  1.], dtype=float32)
    >>> training.commit(params)
    >>> params["moving_mean"].item()  # 0.5 * 0 + 0.5 * 2
    1.0

    Parameters, all of shape (channels,): "gamma" and "beta", and "moving_mean" and "moving_variance",
    which are not trainable. `plugrad.grad` needs ``allow_unused=True`` for them; `variable_grads` and
    `minimize` leave them out. The variance is that of the batch, divided by its size.

    Args:
        epsilon: a number that is added to the variance, so that it is not 0.
        center: whether `beta` is added.
        scale: whether the result is multiplied by `gamma`.
        momentum: the fraction of the moving averages that remains in each step.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        ShapeError: in a call, the input does not have the channels of the parameters.
    """

    momentum: float = 0.99

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("BatchNorm", "momentum", self.momentum, least=0)
        if self.momentum > 1:
            raise ArgumentValueError(f"BatchNorm: momentum={self.momentum} must be at most 1")

    def build(self, generator: Generator, shape: tuple[int, ...], dtype: DType) -> Params:
        """Return the initial scale, offset and running statistics."""
        params = super().build(generator, shape, dtype)
        for name, first in (("moving_mean", 0.0), ("moving_variance", 1.0)):
            value = plugrad.full(shape[-1:], first, dtype=dtype)
            params[name] = plugrad.Variable(value, trainable=False)
        return params

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the result, of the shape of x."""
        x = plugrad.asarray(x)
        gamma, beta = self.scale_and_offset(params, x)
        mean = self.parameter(params, "moving_mean")
        variance = self.parameter(params, "moving_variance")
        if x.ndim < 2 or x.shape[-1:] != mean.shape:
            raise ShapeError(
                f"BatchNorm: x has shape {x.shape}; it must be (batch, …, {mean.size}), because the "
                "parameters are for as many channels"
            )
        self.check_mode(mode)
        if not isinstance(mode, Training):
            return plugrad.batch_norm(x, mean, variance, beta, gamma, variance_epsilon=self.epsilon)
        epsilon = self.epsilon
        if mode.moments is None:
            y, *found = plugrad.batch_norm_training(x, beta, gamma, variance_epsilon=epsilon)
        else:
            now = mode.moments(x, tuple(range(x.ndim - 1)))
            y = plugrad.batch_norm(x, now[0], now[1], beta, gamma, variance_epsilon=epsilon)
            found = [*now]
        moved = [
            plugrad.stop_gradient(old) * self.momentum
            + plugrad.stop_gradient(new) * (1 - self.momentum)
            for old, new in zip((mean, variance), found, strict=True)
        ]
        mode.update(moving_mean=moved[0], moving_variance=moved[1])
        return y


@dataclass(frozen=True, repr=False)
class InstanceNorm(_Normalization):
    """Channels of each example with mean 0 and variance 1, then scaled and shifted (Ulyanov et al., 2016).

    >>> layer = nn.InstanceNorm()
    >>> layer(layer.init(0, (8, 8, 3)), plugrad.ones((2, 8, 8, 3))).shape
    (2, 8, 8, 3)

    Mean and variance are those of all spatial axes. Parameters, arguments and errors are as for `LayerNorm`; the
    input must have a spatial axis.
    """

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the result, of the shape of x."""
        x = plugrad.asarray(x)
        gamma, beta = self.scale_and_offset(params, x)
        if x.ndim < 3:
            raise ShapeError(
                f"InstanceNorm: x has shape {x.shape}; it must be (batch, spatial axes …, channels)"
            )
        mean, variance = plugrad.moments(x, axis=tuple(range(1, x.ndim - 1)), keepdims=True)
        y = plugrad.batch_norm(x, mean, variance, variance_epsilon=self.epsilon)
        y = y if gamma is None else y * gamma
        return y if beta is None else y + beta


@dataclass(frozen=True, repr=False)
class RMSNorm(Layer):
    """Vectors along the last axis divided by their root mean square, then scaled (Zhang and Sennrich, 2019).

    >>> layer = nn.RMSNorm()
    >>> layer(layer.init(0, (2,)), plugrad.asarray([[0.0, 2.0]]))
    tensor([[0.       , 1.4142132]], dtype=float32)

    Parameter: "gamma", of shape (features,). The mean of squares of halves is computed in float32.

    Args:
        epsilon: a number that is added to the mean of squares, so that it is not 0.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        ShapeError: in a call, the input does not have the features of the parameter.
    """

    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        check_number("RMSNorm", "epsilon", self.epsilon, least=0)

    def build(self, generator: Generator, shape: tuple[int, ...], dtype: DType) -> Params:
        """Return the initial scale."""
        self.check_axes(shape, 0, "(…, features)")
        return {"gamma": initializers.ones(generator, shape[-1:], dtype)}

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the result, of the shape of x."""
        x = plugrad.asarray(x)
        gamma = self.parameter(params, "gamma")
        if x.ndim < 2 or x.shape[-1:] != gamma.shape:
            raise ShapeError(
                f"RMSNorm: x has shape {x.shape}; it must be (batch, …, {gamma.size}), because the parameter is for "
                "as many features"
            )
        wide = plugrad.astype(x, plugrad.float32) if x.dtype in HALVES else x
        mean = plugrad.mean(plugrad.square(wide), axis=-1, keepdims=True)
        return plugrad.astype(wide * plugrad.rsqrt(mean + self.epsilon), x.dtype) * gamma
