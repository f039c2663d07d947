"""The recording of a graph: its implementations run once, on replacements that record which exports they call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from plugrad.extend import KERNELS, Call, Fused, Shaped, count_elements
from plugrad.kernels import optimizers
from plugrad_wasm.memory import WasmArray, WasmStridedView, WasmView, round_up_to_size_class
from plugrad_wasm.programs.blocks import (
    MIN_BLOCK_ELEMENTS,
    GroupOperands,
    as_elementwise_calls,
    build_blockwise_calls,
)
from plugrad_wasm.programs.images import (
    divide_images,
    find_divided_values,
    find_overwritten_images,
    is_image_group,
)
from plugrad_wasm.programs.loops import build_compiled_loop
from plugrad_wasm.programs.recorder import (
    BlockOffset,
    RecordingMemory,
    decode_address,
    move_blocks,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

    from plugrad.extend import DType, Graph, Shape, Step, Value
    from plugrad_wasm.memory import LinearMemory
    from plugrad_wasm.programs.recorder import RecordedCall

    Functions = Mapping[str, Callable[..., Any]]
    """The type of the functions that run implementations, by kernel name."""


class BackendStandIn(NamedTuple):
    """A stand-in for the backend while kernels without inputs are recorded."""

    linear_memory: LinearMemory
    """The memory in which the kernels allocate."""


class Recording(NamedTuple):
    """The recorded calls of some steps, in order."""

    memory: RecordingMemory
    """The memory that numbers the recorded blocks; blocks of arguments come first."""
    calls: list[RecordedCall]
    """The recorded calls."""
    results: list[ResultLocation | WasmArray]
    """The locations of the results, or arrays that are the same in each call."""
    in_place_blocks: list[tuple[int, int]]
    """Pairs of block numbers: an input and a result that may take its memory, as elements are read before written."""


class ResultLocation(NamedTuple):
    """The place of a result: a memory block and an offset in bytes, with shape and dtype."""

    block_number: int
    """The number of the memory block."""
    offset: int
    """The bytes before the result in the block."""
    shape: Shape
    """The shape of the result."""
    dtype: DType
    """The dtype of the result."""


def record_graph(
    graph: Graph, linear_memory: LinearMemory, kernel_functions: Functions
) -> Recording:
    """Record the calls of a graph's steps; elementwise steps in groups are recorded block by block.

    Raises:
        CannotRecordError: an implementation needs values. Others raise what they raise untraced.
    """
    recording_memory = RecordingMemory(linear_memory)
    arrays = {v: recording_memory.create_variable_input(graph.specs[v]) for v in graph.arguments}
    arrays |= {v: recording_memory.create_constant_input(x) for v, x in graph.constants.items()}
    in_place: list[tuple[int, int]] = []
    for index, step in enumerate(graph.steps):
        if isinstance(step, Fused) and is_image_group(step.body.steps):
            kept = {v for each in graph.steps[index + 1 :] for v in each.inputs if v is not None}
            kept.update(graph.results, graph.arguments, graph.constants)
            _record_image_group(step.body, recording_memory, arrays, kernel_functions, kept)
            continue
        if isinstance(step, Fused):
            _record_group(step.body, recording_memory, arrays, kernel_functions)
            continue
        assert isinstance(step, Call)
        results = run_on_stand_ins(step, recording_memory, arrays, kernel_functions)
        arrays |= zip(step.outputs, results, strict=True)
        in_place += _find_in_place_blocks(step, arrays, results)
    ends = [locate_result(arrays[v], recording_memory) for v in graph.results]
    return Recording(recording_memory, recording_memory.store.calls, ends, in_place)


def _find_in_place_blocks(
    call: Call, arrays: Mapping[Value, WasmArray], results: Sequence[WasmArray]
) -> Iterator[tuple[int, int]]:
    """Yield the blocks of an optimizer call's gradients, each with the block of the result that may replace it."""
    places = [_locate_array(arrays[v]) for v in call.inputs if v is not None]
    blocks = [place.block_number for place in places]
    for position, result in list_gradient_positions(call.kernel.name, len(call.inputs)):
        # Else it is read for another variable, too, or lies behind something else.
        if blocks.count(blocks[position]) == 1 and not places[position].offset:
            yield blocks[position], _locate_array(results[result]).block_number


def list_gradient_positions(kernel_name: str, input_count: int) -> list[tuple[int, int]]:
    """Return the positions of the gradients among an optimizer's inputs, each with that of the result it may become."""
    kernel = KERNELS.get(kernel_name)
    lists = None if kernel is None else optimizers.LIST_COUNT_OF_KERNEL.get(kernel)
    # The coefficients, the variables, their gradients, and others.
    count = (input_count - 1) // lists if lists else 0
    return [(1 + count + i, i) for i in range(count)]


def run_on_stand_ins(
    call: Call,
    recording_memory: RecordingMemory,
    arrays: Mapping[Value, WasmArray],
    kernel_functions: Functions,
) -> list[WasmArray]:
    """Run the implementation of a call on arrays without values, and return its results."""
    inputs: list[Any] = [None if v is None else arrays[v] for v in call.inputs]
    if not call.kernel.inputs:
        inputs = [BackendStandIn(recording_memory)]
    made = kernel_functions[call.kernel.name](*inputs, **call.attrs)
    return cast("list[WasmArray]", made if call.returns_list else [made])


def _record_group(
    body: Graph,
    recording_memory: RecordingMemory,
    arrays: dict[Value, WasmArray],
    kernel_functions: Functions,
) -> None:
    """Record a group of elementwise calls, to run by blocks if the arrays are large enough."""
    arrays |= {v: recording_memory.create_constant_input(x) for v, x in body.constants.items()}
    known = [*body.arguments, *body.constants]
    for value in known:
        arrays[value].address  # noqa: B018 - which copies the elements of a lazy array
    calls, first_block = recording_memory.store.calls, len(recording_memory.capacities)
    start = len(calls)
    for step in body.steps:
        assert isinstance(step, Call)
        arrays |= zip(
            step.outputs,
            run_on_stand_ins(step, recording_memory, arrays, kernel_functions),
            strict=True,
        )
        known += step.outputs
    shape = body.specs[body.results[0]].shape
    found = as_elementwise_calls(calls[start:], recording_memory.store.functions)
    specs = _find_specs_by_address(known, arrays)
    if found is not None and specs is not None and count_elements(shape) > MIN_BLOCK_ELEMENTS:
        kept = frozenset([_locate_array(arrays[v]).block_number for v in body.results])
        operands = GroupOperands(shape, specs, kept, first_block)
        calls[start:] = [
            build_compiled_loop(found, operands)
            or build_blockwise_calls(found, operands, recording_memory)
        ]


def _record_image_group(
    body: Graph,
    recording_memory: RecordingMemory,
    arrays: dict[Value, WasmArray],
    kernel_functions: Functions,
    kept_values: Set[Value],
) -> None:
    """Record the calls of a group for a few images at a time; `kept_values` are read later."""
    arrays |= {v: recording_memory.create_constant_input(x) for v, x in body.constants.items()}
    known = [*body.arguments, *body.constants]
    for value in known:
        arrays[value].address  # noqa: B018 - which copies the elements of a lazy array
    places = [_locate_owner(arrays[v]) for v in {*kept_values, *known} if v in arrays]
    free = {
        v for v in known if v not in kept_values and places.count(_locate_owner(arrays[v])) == 1
    }
    overwritten = find_overwritten_images(body, free)
    for value in body.results:
        arrays[value] = (
            arrays[overwritten[value]]
            if value in overwritten
            else recording_memory.create_variable_input(body.specs[value])
        )
    divided = find_divided_values(body)
    for part in divide_images(body):
        inside = {v: arrays[v] for v in (*known, *body.results)}
        for value in inside.keys() & divided.keys():
            shape, dtype = divided[value]
            start = part.start * count_elements(shape) * dtype.itemsize
            inside[value] = view_at_offset(arrays[value], (len(part), *shape), dtype, start)
        targets = {v: inside.pop(v) for v in body.results}
        _record_part(body, recording_memory, inside, targets, kernel_functions)


def _record_part(
    body: Graph,
    recording_memory: RecordingMemory,
    arrays: dict[Value, WasmArray],
    targets: Mapping[Value, WasmArray],
    kernel_functions: Functions,
) -> None:
    """Record the calls of a group for some images, which write results to `targets`."""
    calls = recording_memory.store.calls
    moved: dict[int, BlockOffset] = {}

    def record(steps: Iterable[Step]) -> list[RecordedCall]:
        """Return the recorded calls of steps, and the addresses of the targets."""
        start = len(calls)
        for step in steps:
            assert isinstance(step, Call)
            (arrays[step.outputs[0]],) = run_on_stand_ins(
                step, recording_memory, arrays, kernel_functions
            )
            for value in targets.keys() & {*step.outputs}:
                moved[_locate_array(arrays[value]).block_number] = _locate_array(targets[value])
        calls[start:] = [move_blocks(call, moved) for call in calls[start:]]
        return calls[start:]

    record(step for step in body.steps if is_image_group([step]))
    start, first_block = len(calls), len(recording_memory.capacities)
    rest = record(step for step in body.steps if not is_image_group([step]))
    found = as_elementwise_calls(rest, recording_memory.store.functions)
    arrays |= targets
    specs, shape = _find_specs_by_address(arrays, arrays), targets[body.results[0]].shape
    if found is not None and specs is not None and count_elements(shape) > MIN_BLOCK_ELEMENTS:
        kept = frozenset([_locate_array(x).block_number for x in targets.values()])
        operands = GroupOperands(shape, specs, kept, first_block)
        calls[start:] = [build_blockwise_calls(found, operands, recording_memory)]


def _locate_owner(array: WasmArray) -> int:
    """Return the number of the block of an array; a strided view has the block of the array that it shows."""
    while isinstance(array, WasmStridedView) and array.strided_view is not None:
        array = array.strided_view.owner
    return _locate_array(array).block_number


def _find_specs_by_address(
    values: Iterable[Value], arrays: Mapping[Value, WasmArray]
) -> dict[BlockOffset, Shaped] | None:
    """Return the shape and dtype of values by the place of their arrays; None if one place has two shapes."""
    specs: dict[BlockOffset, Shaped] = {}
    for value in values:
        array = arrays[value]
        spec = Shaped(array.shape, array.dtype)
        if specs.setdefault(_locate_array(array), spec) != spec:
            return None
    return specs


def _locate_array(array: WasmArray) -> BlockOffset:
    """Return the location of an array in a recording; a lazy array is copied first."""
    place = decode_address(array.address)
    assert isinstance(place, BlockOffset)
    return place


def locate_result(
    array: WasmArray, recording_memory: RecordingMemory
) -> ResultLocation | WasmArray:
    """Return the location of a result, or a view if it lies in an existing array."""
    block, offset = _locate_array(array)
    fixed = recording_memory.fixed.get(block)
    if fixed is not None:
        return view_at_offset(fixed, array.shape, array.dtype, offset)
    return ResultLocation(block, offset, array.shape, array.dtype)


def view_at_offset(owner: WasmArray, shape: Shape, dtype: DType, offset: int) -> WasmView:
    """Return a view of an array from an offset in bytes on."""
    view = WasmView(owner, shape, dtype)
    view.address += offset
    view.capacity = round_up_to_size_class(view.size * dtype.itemsize)
    return view
