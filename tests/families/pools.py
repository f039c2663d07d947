"""Rows that the poolings of two and of three spatial axes share."""

import numpy as np

import plugrad
from families import windows
from families.case import Case
from families.domains import Domain, uniform


def complete(attrs, axes):
    """Return the attributes of an op as its kernel gets them."""
    size = windows.each(attrs["window_size"], axes)
    return {
        "window_size": size,
        "strides": windows.each(attrs.get("strides", size), axes),
        "padding": windows.pairs(attrs.get("padding", "valid"), axes),
        "dim_rounding_mode": attrs.get("dim_rounding_mode"),
    }


def gradient_cases(kernels, attrs, images, ties=False):
    """Return the cases of the gradients of the largest element and of the average."""
    attrs = complete(attrs, len(images) - 2)
    x = np.random.default_rng(1).permutation(int(np.prod(images))).reshape(images) / 4
    x = x % 3 if ties else x
    y = windows.max_pool(x, **attrs)
    known = [Domain(lambda rng, shape, dtype, values=v: values.astype(dtype)) for v in (x, y)]
    dy = uniform(-2, 2)
    largest, average = kernels
    return [
        Case(
            *(windows.by_name(largest), windows.max_pool_gradient),
            *([dy, *known], [y.shape, images, y.shape], attrs),
        ),
        Case(
            *(windows.by_name(average), windows.avg_pool_gradient),
            *([dy, known[0]], [y.shape, images], attrs),
        ),
    ]


def check_second_order(case, rng, backend):
    """Differentiate a gradient kernel for dy, in which it is linear; the images stay."""
    fixed = case.draw(rng, "float64")[1:]

    def of_dy(dy, **attrs):
        rest = [plugrad.asarray(x.astype(str(dy.dtype)), device=dy.device) for x in fixed]
        return case.op(dy, *rest, **attrs)

    Case(of_dy, of_dy, case.domains[:1], case.shapes[:1], case.attrs).check_gradient(rng, backend)
