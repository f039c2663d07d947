"""Calls that work, for ops that are kernels or classes in plugrad, or need another call than properties.calls has."""

from typing import Any

import numpy as np

from properties.calls import FLOATS, IMAGES, VOLUMES

_POOL = {"filter_size": (2, 2), "strides": (2, 2), "pad": "valid"}
_POOL3D = {"filter_size": (2, 2, 2), "strides": (1, 1, 1), "pad": "valid"}
_CONVOLUTION = {"strides": (1, 1), "pad": "valid"}
_CONVOLUTION3D = {"strides": (1, 1, 1), "pad": "valid"}
_SMALL_IMAGES = np.ones((2, 2, 2, 3), "float32")
_SMALL_VOLUMES = np.ones((2, 2, 2, 2, 2), "float32")
_OUTPUT_GRADIENT = np.ones((2, 3, 3, 2), "float32")
_OUTPUT_GRADIENT_3D = np.ones((2, 2, 2, 2, 3), "float32")
_FILTER = np.ones((2, 2, 3, 2), "float32")
_FILTER3D = np.ones((2, 2, 2, 2, 3), "float32")

VALID_CALL_ARGUMENTS: dict[str, dict[str, Any]] = {
    "internal.avg_pool_grad": {"dy": _SMALL_IMAGES, "input": IMAGES, **_POOL},
    "internal.max_pool_grad": {
        "dy": _SMALL_IMAGES,
        "input": IMAGES,
        "output": _SMALL_IMAGES,
        **_POOL,
    },
    "internal.avg_pool3d_grad": {"dy": _SMALL_VOLUMES, "input": VOLUMES, **_POOL3D},
    "internal.max_pool3d_grad": {
        "dy": _SMALL_VOLUMES,
        "input": VOLUMES,
        "output": _SMALL_VOLUMES,
        **_POOL3D,
    },
    "internal.conv2d_backprop_filter": {
        "x": IMAGES,
        "dy": _OUTPUT_GRADIENT,
        "filter_shape": (2, 2, 3, 2),
        **_CONVOLUTION,
    },
    "internal.conv2d_backprop_input": {
        "dy": _OUTPUT_GRADIENT,
        "filter": _FILTER,
        "input_shape": (2, 4, 4, 3),
        **_CONVOLUTION,
    },
    "internal.conv3d_backprop_filter": {
        "x": VOLUMES,
        "dy": _OUTPUT_GRADIENT_3D,
        "filter_shape": (2, 2, 2, 2, 3),
        **_CONVOLUTION3D,
    },
    "internal.conv3d_backprop_input": {
        "dy": _OUTPUT_GRADIENT_3D,
        "filter": _FILTER3D,
        "input_shape": (2, 3, 3, 3, 2),
        **_CONVOLUTION3D,
    },
    "variable": {"initial": FLOATS, "name": "weights"},
}
