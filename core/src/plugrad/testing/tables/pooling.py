"""Windows that slide over images and summarize what they see."""

# What references take is an array, which a lambda has no place to say.
# pyright: basic

from typing import Any

import numpy as np

from plugrad.contract.kernel import Kernel
from plugrad.kernels import pooling
from plugrad.testing.definitions import transposed, unfolded
from plugrad.testing.rows import FLOATS, Array, Row, different, of_shape, these
from plugrad.types.specs import Shape

NAN, INF = np.nan, np.inf


def cells(x: Array, how: dict[str, Any], outside: Any) -> Array:
    """Return what each window sees on the last axis, without windows that see nothing of the image."""
    size = how["filter_size"]

    def seen(x: Array, outside: Any) -> Array:
        windows = unfolded(
            x,
            size,
            how["strides"],
            how["pad"],
            how.get("dilations", ()),
            rounding=how.get("dim_rounding_mode"),
            outside=outside,
        )
        return windows.reshape(*windows.shape[: x.ndim], -1)

    sees = np.asarray(seen(np.ones(x.shape), 0).any(-1))
    result = seen(x, outside)
    for axis in range(1, x.ndim - 1):
        kept = np.moveaxis(sees, axis, 0).reshape(sees.shape[axis], -1).any(-1)
        result = np.compress(kept | (not x.size), result, axis)
    return result


def largest(x: Array, how: dict[str, Any]) -> Array:
    low = -INF if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    return cells(x, how, low).max(-1)


def average(x: Array, how: dict[str, Any]) -> Array:
    return cells(x, how, 0).sum(-1) / cells(np.ones(x.shape), how, 0).sum(-1)


def places(x: Array, how: dict[str, Any]) -> Array:
    """Return the position of the first largest element of each window among all elements."""
    seen = cells(x.astype(float), how, -INF)
    first = np.where(np.isnan(seen).any(-1), np.isnan(seen).argmax(-1), seen.argmax(-1))
    numbered = cells(np.arange(x.size).reshape(x.shape), how, -1)
    return np.take_along_axis(numbered, first[..., None], -1)[..., 0]


def largest_gradient(dy: Array, x: Array, how: dict[str, Any]) -> Array:
    dx = np.zeros(x.size)
    np.add.at(dx, places(x, how).reshape(-1), dy.reshape(-1))
    return dx.reshape(x.shape)


def rows(
    hows: list[tuple[Shape, dict[str, Any]]],
    max_pool: Kernel[..., Any],
    max_pool_gradient: Kernel[..., Any],
    avg_pool: Kernel[..., Any],
    avg_pool_gradient: Kernel[..., Any],
) -> list[Row]:
    """Return the rows of two poolings and of their gradients."""
    found: list[Row] = []
    for shape, how in hows:
        result = average(np.ones(shape), how).shape
        image = np.random.default_rng(1).permutation(int(np.prod(shape))).reshape(shape) / 4
        tied = image % 3
        found += [
            Row(max_pool, lambda x, how=how: largest(x, how), [different(*shape)], how),
            Row(avg_pool, lambda x, how=how: average(x, how), [of_shape(*shape)], how),
            *(
                Row(
                    max_pool_gradient,
                    lambda dy, x, y, how=how: largest_gradient(dy, x, how),
                    [of_shape(*result), these(x), these(largest(x, how))],
                    how,
                    dtypes=FLOATS,
                    fixed=(1, 2),  # the images may have ties
                )
                for x in (image, tied)
            ),
            Row(
                avg_pool_gradient,
                lambda dy, x, how=how: transposed(lambda x: average(x, how), x.shape, dy),
                [of_shape(*result), of_shape(*shape)],
                how,
                dtypes=FLOATS,
            ),
        ]
    return found


def how(size: Shape, strides: Shape, pad: Any = "valid", rounding: Any = None) -> dict[str, Any]:
    """Return the attributes of a pooling."""
    return {"filter_size": size, "strides": strides, "pad": pad, "dim_rounding_mode": rounding}


IMAGES = [
    ((2, 4, 6, 3), how((2, 2), (2, 2))),
    ((1, 5, 6, 2), how((3, 2), (2, 1), "same")),
    ((1, 5, 5, 1), how((3, 3), (2, 2), ((1, 0), (1, 1)))),
    ((1, 6, 5, 2), how((2, 2), (3, 2), ((1, 1), (0, 0)), "ceil")),
]
POOLS = [
    ((1, 7, 6, 2), (2, 2), (1, 1), "same", (2, 1)),
    ((2, 8, 3), (3,), (2,), "valid", (1,)),
    ((1, 5, 5, 2), (2, 3), (1, 2), ((1, 0), (1, 1)), (1, 1)),
]

ROWS = [
    *rows(
        IMAGES,
        pooling.max_pool,
        pooling.max_pool_gradient,
        pooling.avg_pool,
        pooling.avg_pool_gradient,
    ),
    *(
        Row(
            pooling.max_pool_with_argmax,
            lambda x, how=attrs, share=share: [largest(x, how), places(x, how) % (share or x.size)],
            [different(*shape)],
            {
                **{k: v for k, v in attrs.items() if k != "dim_rounding_mode"},
                "include_batch_in_index": not share,
            },
        )
        for shape, attrs in IMAGES[:3]
        for share in (0, int(np.prod(shape[1:])))
    ),
    *(
        Row(
            pooling.pool,
            lambda x,
            kind=kind,
            how=dict(  # noqa: C408
                filter_size=size, strides=strides, pad=pad, dilations=dilations
            ): largest(x, how) if kind == "max" else average(x, how),
            [different(*shape) if kind == "max" else of_shape(*shape)],
            {
                "window_shape": size,
                "pooling_type": kind,
                "pad": pad,
                "dilations": dilations,
                "strides": strides,
            },
            dtypes=FLOATS if kind == "avg" else (),
        )
        for shape, size, strides, pad, dilations in POOLS
        for kind in ("max", "avg")
    ),
    # NaN is the largest, and so is every padded window with nothing but -inf.
    *(
        Row(
            pooling.max_pool,
            lambda x: largest(x, how((2, 2), (1, 1), "same")),
            [these(np.reshape(image, (1, 3, 3, 1)))],
            how((2, 2), (1, 1), "same"),
            dtypes=FLOATS,
            is_edge=True,
            is_smooth=False,
        )
        for image in ([1, NAN, 2, 3, 4, 5, INF, -INF, 0], [-INF] * 9, [-9] * 9)
    ),
]
