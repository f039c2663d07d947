"""What the steps of a graph ask the sandbox for: their implementations run once, on stand-ins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from plugrad.extend import Call
from plugrad_wasm.memory import WasmArray, WasmView, size_class
from plugrad_wasm.programs.recorder import Place, RecordingMemory, locate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from plugrad.extend import DType, Graph, Shape, Value
    from plugrad_wasm.memory import LinearMemory
    from plugrad_wasm.programs.recorder import Recorded

    Functions = Mapping[str, Callable[..., Any]]


class Home(NamedTuple):
    """What kernels without inputs get in the place of the backend."""

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
    """Return a recording of a graph whose steps are calls.

    Raises:
        NotRecorded: an implementation needs values. Others raise what they raise untraced.
    """
    memory = RecordingMemory(home)
    arrays = {v: memory.given(graph.specs[v]) for v in graph.arguments}
    arrays |= {v: memory.stand_in(x) for v, x in graph.constants.items()}
    for step in graph.steps:
        assert isinstance(step, Call)
        results = run_call(step, memory, arrays, functions)
        arrays |= zip(step.outputs, results, strict=True)
    ends = [_end_of(arrays[v], home) for v in graph.results]
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


def _end_of(array: WasmArray, home: LinearMemory) -> End | WasmArray:
    """Return what a result is, after copying the elements of a lazy array."""
    place = locate(array.address)
    if isinstance(place, Place):
        return End(*place, array.shape, array.dtype)
    owner = array
    while isinstance(owner, WasmView) and owner.memory is not home:
        owner = owner.owner
    return view_of(owner, array.shape, array.dtype, array.address - owner.address)


def view_of(owner: WasmArray, shape: Shape, dtype: DType, offset: int) -> WasmView:
    """Return the elements of an array from an offset in bytes on, in a shape and dtype."""
    view = WasmView(owner, shape, dtype)
    view.address += offset
    view.capacity = size_class(view.size * dtype.itemsize)
    return view
