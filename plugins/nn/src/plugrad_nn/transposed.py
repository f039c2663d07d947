"""Transposed convolutions, which make sequences, images and volumes larger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import plugrad
from plugrad.extend import ShapeError
from plugrad_nn.arguments import SizeOrSizes, check_sizes
from plugrad_nn.convolution import AXIS_NAMES_BY_RANK, _GroupedConvolution  # pyright: ignore[reportPrivateUsage]
from plugrad_nn.layer import INFERENCE, Mode

if TYPE_CHECKING:
    from plugrad import Tensor
    from plugrad.extend import DType
    from plugrad.random import Generator
    from plugrad_nn.parameters import Params


@dataclass(frozen=True, repr=False)
class _Transposed(_GroupedConvolution):
    """A transposed convolution of any number of spatial axes."""

    output_padding: SizeOrSizes | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.output_padding is not None:
            check_sizes(
                type(self).__name__, "output_padding", self.output_padding, self.rank, least=0
            )

    def build(self, generator: Generator, shape: tuple[int, ...], dtype: DType) -> Params:
        """Return the kernel and the bias."""
        self.check_axes(shape, self.rank + 1, AXIS_NAMES_BY_RANK[self.rank])
        size = check_sizes("", "kernel_size", self.kernel_size, self.rank)
        self.channels_of_a_group(shape[-1])
        filters = self.filters // self.groups
        drawn = self.kernel_initializer(generator, (*size, shape[-1], filters), dtype)
        kernel = plugrad.matrix_transpose(drawn)  # plugrad's order: outputs before inputs
        return {"kernel": kernel, **self.initial_bias(generator, self.filters, dtype)}

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the result, of shape (batch, spatial axes …, filters)."""
        name, rank = type(self).__name__, self.rank
        kernel = self.parameter(params, "kernel")
        x = plugrad.asarray(x)
        if x.ndim != rank + 2 or x.shape[-1] != kernel.shape[-1]:
            raise ShapeError(
                f"{name}: x has shape {x.shape}; it must be (batch, {AXIS_NAMES_BY_RANK[rank][1:-1]}) with "
                f"{kernel.shape[-1]} channels, because the kernel has shape {kernel.shape}"
            )
        strides = check_sizes(name, "strides", self.strides, rank)
        dilations = check_sizes(name, "dilation_rate", self.dilation_rate, rank)
        sizes = [
            self._output_size(n, stride, (cells - 1) * dilation + 1, extra)
            for n, stride, dilation, cells, extra in zip(
                x.shape[1:-1],
                strides,
                dilations,
                kernel.shape,
                self._output_padding(),
                strict=False,
            )
        ]
        shape = (x.shape[0], *sizes, self.filters)
        pad: Any = self.padding
        if rank == 1:
            y = plugrad.conv1d_transpose(
                x, kernel, shape, strides[0], pad, dilation=dilations[0], groups=self.groups
            )
        else:
            transpose = plugrad.conv2d_transpose if rank == 2 else plugrad.conv3d_transpose
            y = transpose(x, kernel, shape, strides, pad, dilations=dilations, groups=self.groups)
        return self.add_bias_and_activate(params, y)

    def _output_padding(self) -> tuple[int | None, ...]:
        """Return the output padding of each axis, if there is one."""
        if self.output_padding is None:
            return (None,) * self.rank
        return check_sizes("", "output_padding", self.output_padding, self.rank, least=0)

    def _output_size(
        self, input_size: int, stride: int, filter_extent: int, output_padding: int | None
    ) -> int:
        """Return the output size of an axis, of which a convolution gives the input size again."""
        if output_padding is None and self.padding == "same":
            return input_size * stride
        if output_padding is None:  # a stride beyond the filter leaves zeros at the end
            return input_size * stride + max(filter_extent - stride, 0)
        cut = filter_extent // 2 * 2 if self.padding == "same" else 0
        return (input_size - 1) * stride + filter_extent - cut + output_padding


@dataclass(frozen=True, repr=False)
class Conv1DTranspose(_Transposed):
    """A transposed convolution of sequences, of shape (batch, width, channels).

    >>> layer = nn.Conv1DTranspose(4, 3, strides=2, padding="same")
    >>> layer(layer.init(0, (8, 2)), plugrad.ones((1, 8, 2))).shape
    (1, 16, 4)

    Parameters: "kernel" of shape (width, filters / groups, channels) and "bias" of shape (filters,). Arguments
    and errors are as for `Conv2DTranspose`, with one spatial axis.
    """

    rank: ClassVar[int] = 1


@dataclass(frozen=True, repr=False)
class Conv2DTranspose(_Transposed):
    """A transposed convolution of images, of shape (batch, height, width, channels): `plugrad.conv2d_transpose`.

    >>> layer = nn.Conv2DTranspose(4, 3, strides=2)
    >>> layer(layer.init(0, (8, 8, 2)), plugrad.ones((1, 8, 8, 2))).shape
    (1, 17, 17, 4)

    An axis of size n becomes ``n * stride`` with the padding "same", and
    ``n * stride + max(extent - stride, 0)`` with "valid", where the extent of a filter is
    ``(size - 1) * dilation + 1``. With an output padding, these are ``(n - 1) * stride + extent + padding``, less
    ``extent // 2 * 2`` with "same". Parameters: "kernel" of shape (height, width, filters / groups, channels) and
    "bias" of shape (filters,).

    Args:
        filters: the number of output channels.
        kernel_size: the size of a filter, one number or (height, width).
        strides: the distance between the filters of neighbouring pixels, likewise.
        padding: "valid" or "same".
        dilation_rate: the distance between neighbouring cells of a filter, likewise.
        activation: a function of the result, such as `plugrad.relu`.
        use_bias: whether there is a bias.
        kernel_initializer: see `plugrad_nn.initializers`.
        bias_initializer: see `plugrad_nn.initializers`.
        groups: into how many equal groups channels and filters are divided, each a convolution of its own.
        output_padding: how much larger the result is at the end of an axis, one number or (height, width), less than
            the stride; by default the sizes are those above.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        ShapeError: in a call, the input does not have this shape.
        DTypeError: in a call, the input does not hold floats.
    """

    rank: ClassVar[int] = 2


@dataclass(frozen=True, repr=False)
class Conv3DTranspose(_Transposed):
    """A transposed convolution of volumes, of shape (batch, depth, height, width, channels).

    >>> layer = nn.Conv3DTranspose(4, 2, strides=2)
    >>> layer(layer.init(0, (2, 3, 3, 2)), plugrad.ones((1, 2, 3, 3, 2))).shape
    (1, 4, 6, 6, 4)

    Parameters: "kernel" of shape (depth, height, width, filters / groups, channels) and "bias" of
    shape (filters,). Arguments and errors are as for `Conv2DTranspose`, with three spatial axes.
    """

    rank: ClassVar[int] = 3
