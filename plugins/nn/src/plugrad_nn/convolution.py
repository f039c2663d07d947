"""Layers that slide filters over sequences, images and volumes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import plugrad
from plugrad.extend import ArgumentValueError, ShapeError
from plugrad_nn import initializers
from plugrad_nn.arguments import SizeOrSizes, check_choice, check_flag, check_integer, check_sizes
from plugrad_nn.dense import check_activation
from plugrad_nn.layer import INFERENCE, Layer, Mode

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad import Tensor
    from plugrad.extend import DType
    from plugrad.random import Generator
    from plugrad_nn.initializers import Initializer
    from plugrad_nn.parameters import Params

AXIS_NAMES_BY_RANK = {
    1: "(width, channels)",
    2: "(height, width, channels)",
    3: "(depth, height, width, channels)",
}


@dataclass(frozen=True, repr=False)
class _Convolution(Layer):
    """The fields of convolutions of any rank, their bias and their activation."""

    filters: int
    kernel_size: SizeOrSizes
    strides: SizeOrSizes = 1
    padding: str = "valid"
    dilation_rate: SizeOrSizes = 1
    activation: Callable[[Tensor], Tensor] | None = None
    use_bias: bool = True
    kernel_initializer: Initializer = initializers.glorot_uniform
    bias_initializer: Initializer = initializers.zeros

    rank: ClassVar[int]
    paddings: ClassVar[tuple[str, ...]] = ("valid", "same")

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_integer(name, "filters", self.filters, 1)
        check_window(self, self.rank)
        check_choice(name, "padding", self.padding, self.paddings)
        check_activation(self)
        check_flag(name, "use_bias", self.use_bias)

    def initial_bias(self, generator: Generator, channels: int, dtype: DType) -> Params:
        """Return the bias, if there is one."""
        if not self.use_bias:
            return {}
        return {"bias": self.bias_initializer(generator, (channels,), dtype)}

    def add_bias_and_activate(self, params: Params, y: Tensor) -> Tensor:
        """Add the bias and apply the activation."""
        if self.use_bias:
            y = self.add_bias(y, self.parameter(params, "bias"))
        return y if self.activation is None else self.activation(y)


@dataclass(frozen=True, repr=False)
class _GroupedConvolution(_Convolution):
    """A convolution in which groups of channels may have filters of their own."""

    groups: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self).__name__
        if self.filters % check_integer(name, "groups", self.groups, 1):
            raise ArgumentValueError(
                f"{name}: groups={self.groups} must divide filters={self.filters}"
            )

    def channels_of_a_group(self, channels: int) -> int:
        """Return the number of input channels in each group.

        Raises:
            ShapeError: the groups would not be equal.
        """
        if channels % self.groups:
            raise ShapeError(
                f"{type(self).__name__}: groups={self.groups} must divide the {channels} channels of the input"
            )
        return channels // self.groups


@dataclass(frozen=True, repr=False)
class _DenseConvolution(_GroupedConvolution):
    """A convolution whose filters read all channels of their group."""

    def build(self, generator: Generator, shape: tuple[int, ...], dtype: DType) -> Params:
        """Return the kernel and the bias."""
        self.check_axes(shape, self.rank + 1, AXIS_NAMES_BY_RANK[self.rank])
        size = check_sizes("", "kernel_size", self.kernel_size, self.rank)
        channels = self.channels_of_a_group(shape[-1])
        kernel = self.kernel_initializer(generator, (*size, channels, self.filters), dtype)
        return {"kernel": kernel, **self.initial_bias(generator, self.filters, dtype)}


@dataclass(frozen=True, repr=False)
class Conv1D(_DenseConvolution):
    """A convolution of sequences, of shape (batch, width, channels): `plugrad.conv1d` plus a bias.

    >>> layer = nn.Conv1D(4, 3, padding="causal")
    >>> layer(layer.init(0, (8, 2)), plugrad.ones((1, 8, 2))).shape
    (1, 8, 4)

    Parameters: "kernel" of shape (width, channels / groups, filters) and "bias" of shape (filters,).

    Args:
        filters: the number of output channels.
        kernel_size: the width of a filter.
        strides: the distance between neighbouring positions of a filter.
        padding: "valid", "same", or "causal", where an element depends on none after it.
        dilation_rate: the distance between neighbouring cells of a filter.
        activation: a function of the result, such as `plugrad.relu`.
        use_bias: whether there is a bias.
        kernel_initializer: see `plugrad_nn.initializers`.
        bias_initializer: see `plugrad_nn.initializers`.
        groups: into how many equal groups channels and filters are divided, each a convolution of its own.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        ShapeError: in a call, the input does not have this shape.
        DTypeError: in a call, the input does not hold floats.
    """

    rank: ClassVar[int] = 1
    paddings: ClassVar[tuple[str, ...]] = ("valid", "same", "causal")

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the result, of shape (batch, positions, filters)."""
        kernel = self.parameter(params, "kernel")
        (stride,), (dilation,) = (
            check_sizes("Conv1D", "", value, 1) for value in (self.strides, self.dilation_rate)
        )
        before = (kernel.shape[0] - 1) * dilation
        padding: Any = ((before, 0),) if self.padding == "causal" else self.padding
        y = plugrad.conv1d(x, kernel, stride, padding, dilation=dilation, groups=self.groups)
        return self.add_bias_and_activate(params, y)


@dataclass(frozen=True, repr=False)
class Conv2D(_DenseConvolution):
    """A convolution of images, of shape (batch, height, width, channels): `plugrad.conv2d` plus a bias.

    >>> layer = nn.Conv2D(4, 3, activation=plugrad.relu)
    >>> layer(layer.init(0, (8, 8, 2)), plugrad.ones((1, 8, 8, 2))).shape
    (1, 6, 6, 4)

    Parameters: "kernel" of shape (height, width, channels / groups, filters) and "bias" of shape
    (filters,).

    Args:
        filters: the number of output channels.
        kernel_size: the size of a filter, one number or (height, width).
        strides: the distance between neighbouring positions of a filter, likewise.
        padding: "valid" or "same".
        dilation_rate: the distance between neighbouring cells of a filter, likewise.
        activation: a function of the result, such as `plugrad.relu`.
        use_bias: whether there is a bias.
        kernel_initializer: see `plugrad_nn.initializers`.
        bias_initializer: see `plugrad_nn.initializers`.
        groups: into how many equal groups channels and filters are divided, each a convolution of its own.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        ShapeError: in a call, the input does not have this shape.
        DTypeError: in a call, the input does not hold floats.
    """

    rank: ClassVar[int] = 2

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the result, of shape (batch, rows, columns, filters)."""
        kernel = self.parameter(params, "kernel")
        y = plugrad.conv2d(
            x,
            kernel,
            self.strides,
            _as_padding(self.padding),
            dilations=self.dilation_rate,
            groups=self.groups,
        )
        return self.add_bias_and_activate(params, y)


@dataclass(frozen=True, repr=False)
class Conv3D(_DenseConvolution):
    """A convolution of volumes, of shape (batch, depth, height, width, channels): `plugrad.conv3d` plus a bias.

    >>> layer = nn.Conv3D(4, (1, 3, 3))
    >>> layer(layer.init(0, (2, 8, 8, 2)), plugrad.ones((1, 2, 8, 8, 2))).shape
    (1, 2, 6, 6, 4)

    Parameters: "kernel" of shape (depth, height, width, channels / groups, filters) and "bias" of
    shape (filters,). Arguments and errors are as for `Conv2D`, with three spatial axes.
    """

    rank: ClassVar[int] = 3

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the result, of shape (batch, depth, rows, columns, filters)."""
        kernel = self.parameter(params, "kernel")
        y = plugrad.conv3d(
            x,
            kernel,
            self.strides,
            _as_padding(self.padding),
            dilations=self.dilation_rate,
            groups=self.groups,
        )
        return self.add_bias_and_activate(params, y)


@dataclass(frozen=True, repr=False)
class DepthwiseConv2D(Layer):
    """A convolution of each channel of images with its own filters: `plugrad.depthwise_conv2d` plus a bias.

    >>> layer = nn.DepthwiseConv2D(3, depth_multiplier=2)
    >>> layer(layer.init(0, (8, 8, 3)), plugrad.ones((1, 8, 8, 3))).shape
    (1, 6, 6, 6)

    Parameters: "kernel" of shape (height, width, channels, depth_multiplier) and "bias" of shape
    (channels * depth_multiplier,).

    Args:
        kernel_size: the size of a filter, one number or (height, width).
        strides: the distance between neighbouring positions of a filter, likewise.
        padding: "valid" or "same".
        depth_multiplier: the number of filters for each channel.
        dilation_rate: the distance between neighbouring cells of a filter, likewise.
        activation: a function of the result, such as `plugrad.relu`.
        use_bias: whether there is a bias.
        kernel_initializer: see `plugrad_nn.initializers`; each filter has one input channel.
        bias_initializer: see `plugrad_nn.initializers`.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        ShapeError: in a call, the input does not have this shape.
        DTypeError: in a call, the input does not hold floats.
    """

    kernel_size: SizeOrSizes
    strides: SizeOrSizes = 1
    padding: str = "valid"
    depth_multiplier: int = 1
    dilation_rate: SizeOrSizes = 1
    activation: Callable[[Tensor], Tensor] | None = None
    use_bias: bool = True
    kernel_initializer: Initializer = initializers.glorot_uniform
    bias_initializer: Initializer = initializers.zeros

    def __post_init__(self) -> None:
        check_window(self, 2)
        check_integer("DepthwiseConv2D", "depth_multiplier", self.depth_multiplier, 1)
        check_choice("DepthwiseConv2D", "padding", self.padding, ("valid", "same"))
        check_activation(self)
        check_flag("DepthwiseConv2D", "use_bias", self.use_bias)

    def build(self, generator: Generator, shape: tuple[int, ...], dtype: DType) -> Params:
        """Return the kernel and the bias."""
        self.check_axes(shape, 3, AXIS_NAMES_BY_RANK[2])
        size = check_sizes("", "kernel_size", self.kernel_size, 2)
        channels = shape[-1] * self.depth_multiplier
        kernel = self.kernel_initializer(generator, (*size, 1, channels), dtype)
        params: Params = {
            "kernel": plugrad.reshape(kernel, (*size, shape[-1], self.depth_multiplier))
        }
        if self.use_bias:
            params["bias"] = self.bias_initializer(generator, (channels,), dtype)
        return params

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the result, of shape (batch, rows, columns, channels * depth_multiplier)."""
        y = plugrad.depthwise_conv2d(
            x,
            self.parameter(params, "kernel"),
            self.strides,
            _as_padding(self.padding),
            dilations=self.dilation_rate,
        )
        if self.use_bias:
            y = self.add_bias(y, self.parameter(params, "bias"))
        return y if self.activation is None else self.activation(y)


@dataclass(frozen=True, repr=False)
class SeparableConv2D(_Convolution):
    """A depthwise convolution of images followed by a convolution of size 1 (Chollet, 2017).

    >>> layer = nn.SeparableConv2D(8, 3)
    >>> layer(layer.init(0, (8, 8, 2)), plugrad.ones((1, 8, 8, 2))).shape
    (1, 6, 6, 8)

    Parameters: "depthwise_kernel" of shape (height, width, channels, depth_multiplier), "pointwise_kernel" of shape
    (1, 1, channels * depth_multiplier, filters) and "bias" of shape (filters,).

    Args:
        filters: the number of output channels.
        kernel_size: the size of a filter, one number or (height, width).
        strides: the distance between neighbouring positions of a filter, likewise.
        padding: "valid" or "same".
        dilation_rate: the distance between neighbouring cells of a filter, likewise.
        activation: a function of the result, such as `plugrad.relu`.
        use_bias: whether there is a bias.
        kernel_initializer: see `plugrad_nn.initializers`, for both kernels.
        bias_initializer: see `plugrad_nn.initializers`.
        depth_multiplier: the number of filters for each channel.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        ShapeError: in a call, the input does not have this shape.
        DTypeError: in a call, the input does not hold floats.
    """

    depth_multiplier: int = 1

    rank: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("SeparableConv2D", "depth_multiplier", self.depth_multiplier, 1)

    def build(self, generator: Generator, shape: tuple[int, ...], dtype: DType) -> Params:
        """Return both kernels and the bias."""
        depthwise = DepthwiseConv2D(
            self.kernel_size,
            depth_multiplier=self.depth_multiplier,
            use_bias=False,
            kernel_initializer=self.kernel_initializer,
        ).build(generator, shape, dtype)
        size = (1, 1, shape[-1] * self.depth_multiplier, self.filters)
        return {
            "depthwise_kernel": depthwise["kernel"],
            "pointwise_kernel": self.kernel_initializer(generator, size, dtype),
            **self.initial_bias(generator, self.filters, dtype),
        }

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the result, of shape (batch, rows, columns, filters)."""
        y = plugrad.separable_conv2d(
            x,
            self.parameter(params, "depthwise_kernel"),
            self.parameter(params, "pointwise_kernel"),
            self.strides,
            _as_padding(self.padding),
            dilations=self.dilation_rate,
        )
        return self.add_bias_and_activate(params, y)


def check_window(layer: Any, rank: int) -> None:
    """Raise unless the filters of a layer have a size, strides and dilations for each spatial axis.

    Raises:
        ArgumentError, ArgumentValueError: they do not.
    """
    name = type(layer).__name__
    check_sizes(name, "kernel_size", layer.kernel_size, rank)
    check_sizes(name, "strides", layer.strides, rank)
    check_sizes(name, "dilation_rate", layer.dilation_rate, rank)


def _as_padding(padding: str) -> Any:
    """Return a padding in the type that plugrad's functions take, which lists the allowed strings."""
    return padding
