"""Convolutions over two or three axes, plain and depthwise, by PyTorch's, whose channels come first."""

from typing import Any

import torch
from torch.nn import functional

from plugrad.extend import DataFormat, Padding, Rounding, Shape, Window, geometry
from plugrad.kernels import convolution, convolution3d, depthwise
from plugrad_torch.declare import Array, update
from plugrad_torch.windows import framed, unframed


def channels_last(x: Array, data_format: DataFormat) -> Array:
    """Return images with the channels at the end."""
    return x if data_format.endswith("C") else x.movedim(1, -1)


def formatted(x: Array, data_format: DataFormat) -> Array:
    """Return images with the channels at the end in a data format."""
    return x if data_format.endswith("C") else x.movedim(-1, 1)


def weights_of(filter: Array, groups: int) -> Array:
    """Return filters as PyTorch wants them: (output channels, input channels of a group, spatial axes)."""
    if groups > 1:
        filter = filter.reshape(*filter.shape[:-2], 1, -1)
    return filter.movedim((-1, -2), (0, 1)).contiguous()


def filters_of(weights: Array, shape: Shape) -> Array:
    """Return weights as plugrad wants them, in the shape of its filters."""
    return weights.movedim((0, 1), (-1, -2)).reshape(shape)


class Convolution:
    """The three kernels of a convolution; a depthwise one has a group for each channel."""

    def __init__(self, is_depthwise: bool = False) -> None:
        self.is_depthwise = is_depthwise

    def forward(
        self,
        x: Array,
        filter: Array,
        *,
        strides: Shape,
        pad: Padding,
        data_format: DataFormat,
        dilations: Shape,
        dim_rounding_mode: Rounding,
    ) -> Array:
        """Return the cross-correlation."""
        how = tuple(x.shape), tuple(filter.shape), strides, pad, data_format, dilations
        _, channels, window = geometry(*how, dim_rounding_mode)
        groups = channels if self.is_depthwise else 1
        image = framed(channels_last(x, data_format), window).movedim(-1, 1)
        slide = functional.conv2d if len(window.out) == 2 else functional.conv3d
        y = slide(image, weights_of(filter, groups), None, strides, 0, dilations, groups)
        return formatted(y.movedim(1, -1), data_format)

    def input_gradient(
        self,
        dy: Array,
        filter: Array,
        *,
        input_shape: Shape,
        strides: Shape,
        pad: Padding,
        data_format: DataFormat,
        dilations: Shape,
        dim_rounding_mode: Rounding,
    ) -> Array:
        """Return the gradient for the images."""
        how = input_shape, tuple(filter.shape), strides, pad, data_format, dilations
        batch, channels, window = geometry(*how, dim_rounding_mode)
        size = input_shape[1:-1] if data_format.endswith("C") else input_shape[2:]
        image = framed(torch.zeros((batch, *size, channels), dtype=dy.dtype), window)
        groups = channels if self.is_depthwise else 1
        dx, _ = self._backward(
            dy, image, weights_of(filter, groups), window, data_format, groups, 0
        )
        return formatted(unframed(dx.movedim(1, -1), size, window), data_format)

    def filter_gradient(
        self,
        x: Array,
        dy: Array,
        *,
        filter_shape: Shape,
        strides: Shape,
        pad: Padding,
        data_format: DataFormat,
        dilations: Shape,
        dim_rounding_mode: Rounding,
    ) -> Array:
        """Return the gradient for the filters."""
        how = tuple(x.shape), filter_shape, strides, pad, data_format, dilations
        _, channels, window = geometry(*how, dim_rounding_mode)
        groups = channels if self.is_depthwise else 1
        image = framed(channels_last(x, data_format), window)
        weights = weights_of(torch.zeros(filter_shape, dtype=x.dtype), groups)
        _, dw = self._backward(dy, image, weights, window, data_format, groups, 1)
        return filters_of(dw, filter_shape)

    def _backward(
        self,
        dy: Array,
        image: Array,
        weights: Array,
        window: Window,
        data_format: DataFormat,
        groups: int,
        wanted: int,
    ) -> tuple[Any, Any]:
        """Return the gradients for a framed image and for the weights, of which only one is wanted."""
        none = [0] * len(window.out)
        dx, dw, _ = torch.ops.aten.convolution_backward(
            channels_last(dy, data_format).movedim(-1, 1).contiguous(),
            image.movedim(-1, 1).contiguous(),
            weights,
            None,
            list(window.strides),
            none,
            list(window.dilations),
            False,
            none,
            groups,
            [wanted == 0, wanted == 1, False],
        )
        return dx, dw


plain, by_channel = Convolution(), Convolution(is_depthwise=True)
update(
    {
        convolution.conv2d: plain.forward,
        convolution.conv2d_input_gradient: plain.input_gradient,
        convolution.conv2d_filter_gradient: plain.filter_gradient,
        convolution3d.conv3d: plain.forward,
        convolution3d.conv3d_input_gradient: plain.input_gradient,
        convolution3d.conv3d_filter_gradient: plain.filter_gradient,
        depthwise.depthwise_conv2d: by_channel.forward,
        depthwise.depthwise_conv2d_input_gradient: by_channel.input_gradient,
        depthwise.depthwise_conv2d_filter_gradient: by_channel.filter_gradient,
    }
)
