"""Rows that the poolings of two and of three spatial axes share."""

import numpy as np

import plugrad
from families import windows
from families.case import Case
from families.domains import Domain, uniform


def kernel_attributes(attrs, axes):
    """Return the attributes of a pooling op as its kernel takes them."""
    size = windows.per_axis(attrs["window_size"], axes)
    return {
        "window_size": size,
        "strides": windows.per_axis(attrs.get("strides", size), axes),
        "padding": windows.padding_pairs(attrs.get("padding", "valid"), axes),
        "dim_rounding_mode": attrs.get("dim_rounding_mode"),
    }


def gradient_cases(kernels, attrs, images, ties=False):
    """Return the cases of the gradients of max pooling and average pooling."""
    attrs = kernel_attributes(attrs, len(images) - 2)
    x = np.random.default_rng(1).permutation(int(np.prod(images))).reshape(images) / 4
    x = x % 3 if ties else x
    y = windows.max_pool(x, **attrs)
    known = [Domain(lambda rng, shape, dtype, values=v: values.astype(dtype)) for v in (x, y)]
    dy = uniform(-2, 2)
    largest, average = kernels
    return [
        Case(
            *(windows.run_kernel_by_name(largest), windows.max_pool_gradient),
            *([dy, *known], [y.shape, images, y.shape], attrs),
        ),
        Case(
            *(windows.run_kernel_by_name(average), windows.avg_pool_gradient),
            *([dy, known[0]], [y.shape, images], attrs),
        ),
    ]


def check_gradient_kernel(case, rng, backend):
    """Check the gradient of a gradient kernel with respect to dy; the images are fixed."""
    fixed = case.draw(rng, "float64")[1:]

    def gradient_kernel_of_dy(dy, **attrs):
        rest = [plugrad.asarray(x.astype(str(dy.dtype)), device=dy.device) for x in fixed]
        return case.op(dy, *rest, **attrs)

    Case(
        gradient_kernel_of_dy, gradient_kernel_of_dy, case.domains[:1], case.shapes[:1], case.attrs
    ).check_gradient(rng, backend)
