"""Groups that run for a few images at a time: gradients of poolings, and the elementwise calls that read them.

The gradient with respect to the images stays in the cache until the derivative of the activation before the pooling has
multiplied it. So it is never made as a whole, and the product may take the place of the images.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from plugrad.extend import Call, Shaped
from plugrad.kernels import pooling, pooling3d
from plugrad_native.declare import FLOAT_DTYPES
from plugrad_native.kernels.pooling import describe_pooling
from plugrad_native.programs.calls import (
    AnyCall,
    CCall,
    ConstantOperand,
    InputOperand,
    OutputOperand,
    check_c_function,
    get_inputs,
)
from plugrad_native.programs.element_loops import write_element_loop
from plugrad_native.programs.groups import can_join_loop, lower_group
from plugrad_native.programs.row_loops import ROWS_MAX_L2_BYTES
from plugrad_native.programs.table import ALIGNMENT_BYTES
from plugrad_native.programs.writer import ProgramWriter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from plugrad.extend import Graph, Step, Value
    from plugrad_native.programs.table import Location

    Specs = Mapping[Value, Shaped]
    """The type of the shapes and dtypes of a graph's values, by value."""

C_POOLING_GRADIENTS: Final = {
    (kernel, dtype): check_c_function(f"{name}_{dtype}")
    for kernel, name in (
        (pooling.max_pool_gradient, "max_pool_gradient"),
        (pooling3d.max_pool3d_gradient, "max_pool_gradient"),
        (pooling.avg_pool_gradient, "avg_pool_gradient"),
        (pooling3d.avg_pool3d_gradient, "avg_pool_gradient"),
    )
    for dtype in FLOAT_DTYPES
}
"""The names of the C functions of pooling gradients, by kernel and dtype."""
POOLING_GRADIENT_KERNELS: Final = frozenset(kernel for kernel, _ in C_POOLING_GRADIENTS)
"""The kernels of gradients of poolings that C computes."""


def lower_pooling_gradient(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C call that computes the gradient of a pooling, or None if there is none."""
    dx = call.outputs[0]
    shape, dtype = specs[dx]
    function = C_POOLING_GRADIENTS.get((call.kernel, dtype.name))
    if function is None or (descriptor := describe_pooling(shape, call.attrs["window"])) is None:
        return None
    is_of_averages = call.kernel in (pooling.avg_pool_gradient, pooling3d.avg_pool3d_gradient)
    read = map(InputOperand, get_inputs(call)[:1] if is_of_averages else get_inputs(call))
    return [CCall(function, (*read, OutputOperand(dx), ConstantOperand(descriptor)))]


def is_image_group(calls: Sequence[Step]) -> bool:
    """Return whether the calls of a group run for a few images at a time."""
    return any(isinstance(call, Call) and call.kernel in POOLING_GRADIENT_KERNELS for call in calls)


def fits_in_image_group(calls: Sequence[Call], specs: Specs) -> bool:
    """Return whether calls can run for a few images at a time; the last call reads results of the others."""
    shape = specs[calls[-1].outputs[0]].shape
    fits = can_join_loop(calls[-1], specs) and all(
        specs[call.outputs[0]].shape == shape
        and (is_image_group([call]) or can_join_loop(call, specs))
        for call in calls
    )
    return fits and shape[0] > 1  # all are of images


def write_image_group(
    writer: ProgramWriter, body: Graph, first_image: int = 0, end_image: int | None = None
) -> None:
    """Add the calls of a group to a program, for the images from `first_image` to before `end_image`."""
    shape = writer.specs[body.results[0]].shape
    end_image = shape[0] if end_image is None else end_image
    divided = {
        v
        for step in body.steps
        for v in (*step.inputs, *step.outputs)
        if v is not None
        and len(writer.specs[v].shape) == len(shape)
        and writer.specs[v].shape[0] == shape[0]
    }
    image_bytes = sum(
        writer.nbytes(v) // shape[0]
        for step in body.steps
        if is_image_group([step])
        for v in (*step.inputs, *step.outputs)
        if v is not None
    )
    part = max(min(ROWS_MAX_L2_BYTES // image_bytes, end_image - first_image), 1)
    whole = end_image - (end_image - first_image) % part
    _write_parts(writer, body, divided, range(first_image, whole, part))
    if whole < end_image:
        _write_parts(writer, body, divided, range(whole, end_image, end_image - whole))


def _write_parts(
    writer: ProgramWriter, body: Graph, divided_values: set[Value], first_images: range
) -> None:
    """Write the calls of a group for parts with equally many images, given the number of each part's first image."""
    images, part = writer.specs[body.results[0]].shape[0], first_images.step
    specs = {
        v: Shaped((part, *shape[1:]), dtype) if v in divided_values else Shaped(shape, dtype)
        for v, (shape, dtype) in writer.specs.items()
    }
    made = {v for step in body.steps for v in step.outputs}
    places: dict[Value, Location] = dict(writer.locations)
    for value in divided_values - (made - {*body.results}):
        nbytes = writer.nbytes(value) // images
        place = writer.locate(value).slice_bytes(first_images[0] * nbytes, part * nbytes)
        places[value] = place._replace(bytes_per_iteration=part * nbytes)
    gradients = [step for step in body.steps if is_image_group([step])]
    loop = [step for step in body.steps if not is_image_group([step])]
    inner = {v for step in gradients for v in step.outputs if v not in body.results}
    end = writer.scratch_offset
    for value in sorted(inner):
        nbytes = writer.nbytes(value) // images * part
        places[value] = writer.reserve(end - writer.scratch_offset, nbytes)
        end += -(-nbytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    constants = {v: array for v, array in writer.constants.items() if v not in divided_values}
    inside = ProgramWriter(writer.table, specs, places, end, constants)

    def write_part() -> None:
        """Write the calls for the images of one part."""
        for step in gradients:
            assert isinstance(step, Call)
            calls = lower_pooling_gradient(step, specs)
            assert calls is not None
            inside.write_calls(calls)
        group = lower_group(replace(body, steps=tuple(loop)), specs)
        write_element_loop(inside, specs[body.results[0]].shape, group, body.results)

    writer.table.add_repeat(len(first_images), writer.table.collect_nodes(write_part))
