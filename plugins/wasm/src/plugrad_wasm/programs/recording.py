"""What the steps of a graph ask the sandbox for: their implementations run once, on stand-ins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from plugrad.extend import Call, Fused, Shaped, count_elements
from plugrad_wasm.memory import WasmArray, WasmView, size_class
from plugrad_wasm.programs.blocks import MIN_BLOCK, Operands, as_blocks, elementwise_calls
from plugrad_wasm.programs.recorder import Place, RecordingMemory, locate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from plugrad.extend import DType, Graph, Shape, Value
    from plugrad_wasm.memory import LinearMemory
    from plugrad_wasm.programs.recorder import Recorded

    Functions = Mapping[str, Callable[..., Any]]


class Home(NamedTuple):
    """The object that kernels without inputs get instead of the backend while they are recorded."""

    linear: LinearMemory


class Recording(NamedTuple):
    """The calls of some steps, in their order."""

    memory: RecordingMemory
    """The first blocks are those of the arguments."""
    calls: list[Recorded]
    ends: list[End | WasmArray]
    """The results; an array is the same each time."""


class End(NamedTuple):
    """A result: the elements of a block from an offset in bytes on, in a shape and dtype."""

    block: int
    offset: int
    shape: Shape
    dtype: DType


def record(graph: Graph, home: LinearMemory, functions: Functions) -> Recording:
    """Return a recording of a graph whose steps are calls, and groups of elementwise ones.

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
    """Return the results of the implementation of a call on stand-ins."""
    inputs: list[Any] = [None if v is None else arrays[v] for v in call.inputs]
    if not call.kernel.inputs:
        inputs = [Home(memory)]
    made = functions[call.kernel.name](*inputs, **call.attrs)
    return cast("list[WasmArray]", made if call.returns_list else [made])


def _record_group(
    body: Graph, memory: RecordingMemory, arrays: dict[Value, WasmArray], functions: Functions
) -> None:
    """Record a group of elementwise calls, to run block by block if there are several blocks."""
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
        calls[start:] = [as_blocks(found, operands, memory)]


def _list_place_specs(
    values: Iterable[Value], arrays: Mapping[Value, WasmArray]
) -> dict[Place, Shaped] | None:
    """Return what lies at each place; None if an array has two shapes, which calls do not tell apart."""
    specs: dict[Place, Shaped] = {}
    for value in values:
        array = arrays[value]
        spec = Shaped(array.shape, array.dtype)
        if specs.setdefault(_locate(array), spec) != spec:
            return None
    return specs


def _locate(array: WasmArray) -> Place:
    """Return where an array of a recording lies, after copying the elements of a lazy one."""
    place = locate(array.address)
    assert isinstance(place, Place)
    return place


def describe_end(array: WasmArray, memory: RecordingMemory) -> End | WasmArray:
    """Return where a result lies in the recording, or a view of the existing array that it is."""
    block, offset = _locate(array)
    fixed = memory.fixed.get(block)
    if fixed is not None:
        return view_of(fixed, array.shape, array.dtype, offset)
    return End(block, offset, array.shape, array.dtype)


def view_of(owner: WasmArray, shape: Shape, dtype: DType, offset: int) -> WasmView:
    """Return the elements of an array from an offset in bytes on, in a shape and dtype."""
    view = WasmView(owner, shape, dtype)
    view.address += offset
    view.capacity = size_class(view.size * dtype.itemsize)
    return view
