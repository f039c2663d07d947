"""Strides, paddings and gradient cases that the tests of convolutions share."""

import numpy as np

from families import windows
from families.case import Case


def kernel_attributes(attrs, count, data_format):
    """Return the attributes of a convolution as its kernel takes them."""
    return {
        "strides": windows.per_axis(attrs.get("strides", 1), count),
        "padding": windows.padding_pairs(attrs.get("padding", "valid"), count),
        "data_format": attrs.get("data_format", data_format),
        "dilations": windows.per_axis(attrs.get("dilations", 1), count),
        "dim_rounding_mode": attrs.get("dim_rounding_mode"),
    }


def gradient_cases(case, kernels, references, data_format):
    """Return the cases of the gradients of a convolution with respect to images and filters."""
    images, filters = case.shapes
    attrs = kernel_attributes(case.attrs, len(images) - 2, data_format)
    result = case.reference(np.zeros(images), np.zeros(filters), **attrs).shape
    shapes = (result, filters), (images, result)
    given = {"input_shape": images}, {"filter_shape": filters}
    return [
        Case(
            windows.run_kernel_by_name(kernel),
            reference,
            case.domains,
            shape,
            {**extra, **attrs},
            is_sum=True,
        )
        for kernel, reference, shape, extra in zip(kernels, references, shapes, given, strict=True)
    ]


def with_channels_first(case):
    """Return the case with channels before the spatial axes."""
    images, filters = case.shapes
    data_format = "NCHW" if len(images) == 4 else "NCDHW"
    shapes = (images[0], images[-1], *images[1:-1]), filters
    attrs = {**case.attrs, "data_format": data_format}
    return Case(case.op, case.reference, case.domains, shapes, attrs, is_sum=True)
