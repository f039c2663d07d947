"""Groups that run for a few images at a time: gradients of poolings, and the elementwise calls that read them.

The gradient with respect to the images stays in the cache until the derivative of the activation before the pooling has
multiplied it, and the product may lie where the images were, each of which has been read by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plugrad.extend import Call, Shaped, count_elements
from plugrad.kernels import pooling, pooling3d

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set

    from plugrad.extend import Graph, Step, Value

POOLING_GRADIENT_KERNELS: Final = frozenset(
    {
        *(pooling.max_pool_gradient, pooling.avg_pool_gradient),
        *(pooling3d.max_pool3d_gradient, pooling3d.avg_pool3d_gradient),
    }
)
"""The kernels that compute gradients of poolings."""
MIN_PART_BYTES: Final = 1 << 18
"""The minimum bytes of the images that run together, because Python makes two calls for each part."""


def is_image_group(calls: Sequence[Step]) -> bool:
    """Return whether calls of a group are made for a few images at a time."""
    return any(isinstance(call, Call) and call.kernel in POOLING_GRADIENT_KERNELS for call in calls)


def fits_in_image_group(calls: Sequence[Call], specs: Mapping[Value, Shaped]) -> bool:
    """Return whether calls can run for a few images at a time; the last call reads results of the others.

    All of them can run by themselves, and those that are no gradients of poolings are elementwise.
    """
    shape = specs[calls[-1].outputs[0]].shape
    return (
        is_image_group(calls)
        and not is_image_group(calls[-1:])
        and all(specs[call.outputs[0]].shape == shape for call in calls)
        and shape[0] > 1
        and 0 not in shape
    )


def find_divided_values(body: Graph) -> dict[Value, Shaped]:
    """Return by value the shape and dtype of one image, for the values of a group that have one for each image."""
    shape = body.specs[body.results[0]].shape
    values = {v for step in body.steps for v in (*step.inputs, *step.outputs) if v is not None}
    return {
        v: Shaped(spec.shape[1:], spec.dtype)
        for v in values
        if len((spec := body.specs[v]).shape) == len(shape) and spec.shape[0] == shape[0]
    }


def divide_images(body: Graph) -> list[range]:
    """Return ranges of the images of a group, for each of which all calls of the group run in turn."""
    shape, dtype = body.specs[body.results[0]]
    length = -(-MIN_PART_BYTES // (count_elements(shape[1:]) * dtype.itemsize))
    return [range(n, min(n + length, shape[0])) for n in range(0, shape[0], length)]


def find_overwritten_images(body: Graph, reusable_values: Set[Value]) -> dict[Value, Value]:
    """Return by result of a group the images, among the reusable values, over which it may be written."""
    found: dict[Value, Value] = {}
    for index, step in enumerate(body.steps):
        (value,) = step.outputs
        later = {v for each in body.steps[index + 1 :] for v in each.inputs}
        if value in body.results and not is_image_group([step]):
            places = [
                v
                for v in body.arguments
                if v in reusable_values and v not in later and body.specs[v] == body.specs[value]
            ]
            if places:
                found[value] = places[0]
                reusable_values = reusable_values - {places[0]}
    return found
