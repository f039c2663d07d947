"""The attributes with which TensorFlow.js says how windows slide, translated into those of contracts.

`run_kernel` takes strides, pad, dilations, dataFormat and dimRoundingMode beside the size of the window,
in camel case or in snake case. Contracts have one `Window`, and images with the channels last.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from plugrad.engine.channels import broadcastable_channels_last, channels_first, channels_last
from plugrad.errors import ArgumentError, ArgumentValueError, ShapeError, short_repr
from plugrad.types.windows import (
    DATA_FORMATS_OF_RANK,
    ROUNDING_FUNCTIONS,
    as_sizes,
    is_channels_first,
    parse_padding,
    pool_window,
    sliding_window,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from plugrad.contract.kernel import Kernel
    from plugrad.tensor.tensor import Tensor

InputsByName = dict[str, "Tensor | None"]
"""The inputs of a call by name."""

WINDOW_SIZE_ATTRIBUTE_NAMES: Final = ("filter_size", "window_shape")
"""TensorFlow.js's names of the window size of a pooling; other windows have the size of their filter."""
WINDOW_ATTRIBUTE_NAMES: Final = (
    *WINDOW_SIZE_ATTRIBUTE_NAMES,
    "strides",
    "pad",
    "dilations",
    "data_format",
    "dim_rounding_mode",
)
"""The attributes of TensorFlow.js that describe a window."""
IMAGE_INPUT_NAMES: Final = ("x", "input", "output", "dy")
"""The names of inputs that are images."""
BROADCAST_INPUT_NAMES: Final = ("bias", "prelu_activation_weights")
"""The names of inputs that broadcast to images."""


def has_tensorflow_window(contract: Kernel[..., Any], attrs: Mapping[str, Any]) -> bool:
    """Return whether a contract has the attribute "window" but a call has TensorFlow.js's attributes instead."""
    return "window" in contract.attribute_names and "window" not in attrs


def translate_window_attributes(
    contract: Kernel[..., Any], inputs: InputsByName, tfjs_attrs: Mapping[str, Any]
) -> tuple[InputsByName, dict[str, Any], Callable[[Any], Any]]:
    """Return inputs and attributes for a contract with a window, and a function that restores the order of axes.

    Raises:
        ArgumentError: attributes are missing.
        ArgumentValueError, ShapeError: the attributes are not those of a window over the images.
    """
    name = contract.name
    attrs = {re.sub("([A-Z])", r"_\1", key).lower(): value for key, value in tfjs_attrs.items()}
    images = (x for key in ("input", "x") if (x := inputs.get(key)) is not None)
    filters = inputs.get("filter")
    image = attrs.get("input_shape", getattr(next(images, None), "shape", ()))
    filter = attrs.get("filter_shape", () if filters is None else filters.shape)
    axes = len(image) - 2
    sizes = [attrs.pop(key) for key in WINDOW_SIZE_ATTRIBUTE_NAMES if key in attrs]
    wanted = ("strides", "pad", *contract.attribute_names & {"input_shape", "filter_shape"})
    missing = [key for key in wanted if key not in attrs]
    if missing or not (sizes or filter):
        raise ArgumentError(
            f"{name}: the attribute 'window' is missing, and so are {missing or [WINDOW_SIZE_ATTRIBUTE_NAMES[0]]} "
            "of TensorFlow.js's attributes, which would stand for it"
        )
    if axes < 1:
        raise ShapeError(
            f"{name}: images have a batch axis, spatial axes and a channel axis; the shape is {tuple(image)}"
        )
    data_format = attrs.pop("data_format", DATA_FORMATS_OF_RANK.get(axes, ("",))[0])
    has_channels_first = axes in DATA_FORMATS_OF_RANK and is_channels_first(data_format, axes, name)
    if has_channels_first:
        image = (image[0], *image[2:], image[1])
        inputs = {key: _with_channels_last(key, x, axes) for key, x in inputs.items()}
    attrs |= {"input_shape": tuple(image)} if "input_shape" in attrs else {}
    attrs |= {"filter_shape": tuple(filter)} if "filter_shape" in attrs else {}

    def sizes_per_axis(value: Any, attribute_name: str) -> tuple[int, ...]:
        """Return an attribute's value as one size for each spatial axis."""
        return as_sizes(1 if value is None else value, axes, f"{name}: {attribute_name}")

    rounding = attrs.pop("dim_rounding_mode", None)
    if rounding not in ROUNDING_FUNCTIONS:
        raise ArgumentValueError(
            f"{name}: dim_rounding_mode={short_repr(rounding)} must be 'floor', 'ceil', 'round' or None"
        )
    pad: Any = attrs.pop("pad")
    if type(pad) in (list, tuple) and len(pad) == axes + 2:  # TensorFlow.js pads all axes
        pad = pad[2:] if has_channels_first else pad[1:-1]
    slide = pool_window if sizes else sliding_window
    attrs["window"] = slide(
        tuple(image[1:-1]),
        sizes_per_axis(sizes[0], "filter_size") if sizes else tuple(filter[:axes]),
        sizes_per_axis(attrs.pop("strides"), "strides"),
        parse_padding(pad, axes, name, rounding),
        sizes_per_axis(attrs.pop("dilations", 1), "dilations"),
        rounding,
    )
    is_image = has_channels_first and "filter_shape" not in attrs
    return inputs, attrs, channels_first if is_image else lambda y: y


def _with_channels_last(input_name: str, x: Tensor | None, spatial_rank: int) -> Tensor | None:
    """Return an input that has images, or broadcasts to images, with the channels last; else unchanged."""
    if x is None or input_name not in (*IMAGE_INPUT_NAMES, *BROADCAST_INPUT_NAMES):
        return x
    return (
        broadcastable_channels_last(x, spatial_rank)
        if input_name in BROADCAST_INPUT_NAMES
        else channels_last(x)
    )
