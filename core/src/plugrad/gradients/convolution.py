"""Gradients of the convolutions: three kernels, each linear, each the gradient of the other two."""

# The parameters of a lambda have no place for a type.
# pyright: reportUnknownMemberType=false

from collections.abc import Mapping
from typing import Any

from plugrad.gradient import gradient
from plugrad.kernels.convolution import conv2d, conv2d_filter_gradient, conv2d_input_gradient


def _sliding(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that say how filters slide, which the three kernels share."""
    return {name: attrs[name] for name in conv2d.attributes}


gradient(
    conv2d,
    x=lambda dy, filter, x_spec, attrs: conv2d_input_gradient(
        dy, filter, input_shape=x_spec.shape, **attrs
    ),
    filter=lambda dy, x, filter_spec, attrs: conv2d_filter_gradient(
        x, dy, filter_shape=filter_spec.shape, **attrs
    ),
)
gradient(
    conv2d_input_gradient,
    dy=lambda dy, filter, attrs: conv2d(dy, filter, **_sliding(attrs)),
    filter=lambda dy, dy_input, filter_spec, attrs: conv2d_filter_gradient(
        dy, dy_input, filter_shape=filter_spec.shape, **_sliding(attrs)
    ),
)
gradient(
    conv2d_filter_gradient,
    x=lambda dy, dy_input, x_spec, attrs: conv2d_input_gradient(
        dy_input, dy, input_shape=x_spec.shape, **_sliding(attrs)
    ),
    dy=lambda dy, x, attrs: conv2d(x, dy, **_sliding(attrs)),
)
