"""Dense and depthwise convolutions over two or three axes, by those of PyTorch, whose channels come first."""

from typing import Any

import torch
from torch.nn import functional

from plugrad.extend import Shape, Window
from plugrad.kernels import convolution, convolution3d, depthwise
from plugrad_torch.declare import Array, update
from plugrad_torch.windows import frame_images, unframe_images


def to_torch_filters(filter: Array, groups: int) -> Array:
    """Return filters as PyTorch wants them: (output channels, input channels of a group, spatial axes)."""
    if groups > 1:
        filter = filter.reshape(*filter.shape[:-2], 1, -1)
    return filter.movedim((-1, -2), (0, 1)).contiguous()


class Convolution:
    """The three kernels of a convolution; a depthwise one has a group for each channel."""

    def __init__(self, is_depthwise: bool = False) -> None:
        self.is_depthwise = is_depthwise

    def forward(self, x: Array, filter: Array, *, window: Window) -> Array:
        """Return the cross-correlation."""
        groups = x.shape[-1] if self.is_depthwise else 1
        image = frame_images(x, window).movedim(-1, 1)
        slide = functional.conv2d if len(window.out) == 2 else functional.conv3d
        weights = to_torch_filters(filter, groups)
        y = slide(image, weights, None, window.strides, 0, window.dilations, groups)
        return y.movedim(1, -1)

    def input_gradient(
        self, dy: Array, filter: Array, *, input_shape: Shape, window: Window
    ) -> Array:
        """Return the gradient for the images."""
        groups = input_shape[-1] if self.is_depthwise else 1
        image = frame_images(torch.zeros(input_shape, dtype=dy.dtype), window)
        dx, _ = self._backward(dy, image, to_torch_filters(filter, groups), window, groups, 0)
        return unframe_images(dx.movedim(1, -1), input_shape[1:-1], window)

    def filter_gradient(self, x: Array, dy: Array, *, filter_shape: Shape, window: Window) -> Array:
        """Return the gradient for the filters."""
        groups = x.shape[-1] if self.is_depthwise else 1
        weights = to_torch_filters(torch.zeros(filter_shape, dtype=x.dtype), groups)
        _, dw = self._backward(dy, frame_images(x, window), weights, window, groups, 1)
        return dw.movedim((0, 1), (-1, -2)).reshape(filter_shape)

    def _backward(
        self,
        dy: Array,
        image: Array,
        weights: Array,
        window: Window,
        groups: int,
        wanted_gradient: int,
    ) -> tuple[Any, Any]:
        """Return the gradients for a framed image (0) and for the weights (1); only the wanted one is computed."""
        none = [0] * len(window.out)
        dx, dw, _ = torch.ops.aten.convolution_backward(
            dy.movedim(-1, 1).contiguous(),
            image.movedim(-1, 1).contiguous(),
            weights,
            None,
            list(window.strides),
            none,
            list(window.dilations),
            False,
            none,
            groups,
            [wanted_gradient == 0, wanted_gradient == 1, False],
        )
        return dx, dw


dense_convolution, depthwise_convolution = Convolution(), Convolution(is_depthwise=True)
update(
    {
        convolution.conv2d: dense_convolution.forward,
        convolution.conv2d_input_gradient: dense_convolution.input_gradient,
        convolution.conv2d_filter_gradient: dense_convolution.filter_gradient,
        convolution3d.conv3d: dense_convolution.forward,
        convolution3d.conv3d_input_gradient: dense_convolution.input_gradient,
        convolution3d.conv3d_filter_gradient: dense_convolution.filter_gradient,
        depthwise.depthwise_conv2d: depthwise_convolution.forward,
        depthwise.depthwise_conv2d_input_gradient: depthwise_convolution.input_gradient,
        depthwise.depthwise_conv2d_filter_gradient: depthwise_convolution.filter_gradient,
    }
)
