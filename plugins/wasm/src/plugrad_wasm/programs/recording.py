"""What the steps of a graph ask the sandbox for: their implementations run once, on stand-ins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from plugrad.extend import Call, Fused, Shaped, count_elements
from plugrad_wasm.memory import WasmArray, WasmView, size_class
from plugrad_wasm.programs.blocks import MIN_BLOCK, Operands, as_blocks, elementwise_calls
from plugrad_wasm.programs.loops import as_loop
from plugrad_wasm.programs.recorder import Place, RecordingMemory, locate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from plugrad.extend import DType, Graph, Shape, Value
    from plugrad_wasm.memory import LinearMemory
    from plugrad_wasm.programs.recorder import Recorded

    Functions = Mapping[str, Callable[..., Any]]


class Home(NamedTuple):
    """The object that stands for the backend while kernels without inputs are recorded."""

    linear: LinearMemory


class Recording(NamedTuple):
    """The recorded calls of some steps, in order."""

    memory: RecordingMemory
    """The first blocks are those of the arguments."""
    calls: list[Recorded]
    ends: list[End | WasmArray]
    """The results; an array is the same each time."""


class End(NamedTuple):
    """The location of a result: a block and an offset in bytes, with shape and dtype."""

    block: int
    offset: int
    shape: Shape
    dtype: DType


def record(graph: Graph, home: LinearMemory, functions: Functions) -> Recording:
    """Record the calls of a graph's steps, with elementwise ones in groups.

    Raises:
        NotRecorded: an implementation needs values. Others raise what they raise untraced.
    """
    memory = RecordingMemory(home)
    arrays = {v: memory.new_input(graph.specs[v]) for v in graph.arguments}
    arrays |= {v: memory.stand_in(x) for v, x in graph.constants.items()}
    for step in graph.steps:
        if isinstance(step, Fused):
            _record_group(step.body, memory, arrays, functions)
            continue
        assert isinstance(step, Call)
        results = run_call(step, memory, arrays, functions)
        arrays |= zip(step.outputs, results, strict=True)
    ends = [describe_end(arrays[v], memory) for v in graph.results]
    return Recording(memory, memory.store.calls, ends)


def run_call(
    call: Call, memory: RecordingMemory, arrays: Mapping[Value, WasmArray], functions: Functions
) -> list[WasmArray]:
    """Run the implementation of a call on stand-ins and return its results."""
    inputs: list[Any] = [None if v is None else arrays[v] for v in call.inputs]
    if not call.kernel.inputs:
        inputs = [Home(memory)]
    made = functions[call.kernel.name](*inputs, **call.attrs)
    return cast("list[WasmArray]", made if call.returns_list else [made])


def _record_group(
    body: Graph, memory: RecordingMemory, arrays: dict[Value, WasmArray], functions: Functions
) -> None:
    """Record a group of elementwise calls, to run by blocks if the arrays are large enough."""
    arrays |= {v: memory.stand_in(x) for v, x in body.constants.items()}
    known = [*body.arguments, *body.constants]
    for value in known:
        arrays[value].address  # noqa: B018 - which copies the elements of a lazy array
    calls, first_block = memory.store.calls, len(memory.capacities)
    start = len(calls)
    for step in body.steps:
        assert isinstance(step, Call)
        arrays |= zip(step.outputs, run_call(step, memory, arrays, functions), strict=True)
        known += step.outputs
    shape = body.specs[body.results[0]].shape
    found = elementwise_calls(calls[start:], memory.store.functions)
    specs = _list_place_specs(known, arrays)
    if found is not None and specs is not None and count_elements(shape) > MIN_BLOCK:
        kept = frozenset([_locate(arrays[v]).block for v in body.results])
        operands = Operands(shape, specs, kept, first_block)
        calls[start:] = [as_loop(found, operands, memory) or as_blocks(found, operands, memory)]


def _list_place_specs(
    values: Iterable[Value], arrays: Mapping[Value, WasmArray]
) -> dict[Place, Shaped] | None:
    """Return the shape and dtype at each place, or None if one place has two shapes."""
    specs: dict[Place, Shaped] = {}
    for value in values:
        array = arrays[value]
        spec = Shaped(array.shape, array.dtype)
        if specs.setdefault(_locate(array), spec) != spec:
            return None
    return specs


def _locate(array: WasmArray) -> Place:
    """Return the location of an array in a recording; a lazy array is copied first."""
    place = locate(array.address)
    assert isinstance(place, Place)
    return place


def describe_end(array: WasmArray, memory: RecordingMemory) -> End | WasmArray:
    """Return the location of a result, or a view if it lies in an existing array."""
    block, offset = _locate(array)
    fixed = memory.fixed.get(block)
    if fixed is not None:
        return view_of(fixed, array.shape, array.dtype, offset)
    return End(block, offset, array.shape, array.dtype)


def view_of(owner: WasmArray, shape: Shape, dtype: DType, offset: int) -> WasmView:
    """Return a view of an array from an offset in bytes on."""
    view = WasmView(owner, shape, dtype)
    view.address += offset
    view.capacity = size_class(view.size * dtype.itemsize)
    return view
