"""Elementwise calls that wait, so that calls which follow can be computed by the same shader.

An elementwise call gets a buffer without storage, a `LazyBuffer` one, and joins the chain of its thread for
its number of elements. A chain is finished when a value is needed: when another kernel or a transfer asks for
the storage of one of its buffers. Then the results that somebody still has are written by one dispatch, and the
others are never written. Chains also end when they are long, when values are read, and when `memory()` is asked.

The invariant: a chain refers to its own buffers weakly and to all other buffers strongly. So a buffer of the
chain is dead if and only if nothing but the chain itself needs its values; and what the chain reads stays as it
is until the chain is finished.

A chain is compiled when a program makes it for the second time. Until then its calls are recorded one by one,
because to compile a chain takes as long as thousands of small calls. The values are the same.

What was compiled takes memory, a third of a megabyte on software adapters. So there are two generations: when
`MAX_PROGRAMS_PER_GENERATION` chains were used in one, those that were used only in the one before it are released.
"""

from __future__ import annotations

from dataclasses import replace
from threading import get_ident
from typing import TYPE_CHECKING, Any, Protocol

from plugrad_webgpu.driver.forks import RefusingLock
from plugrad_webgpu.driver.limits import MAX_IMMEDIATE_BYTES, foreign_buffer_error
from plugrad_webgpu.memory.buffers import Buffer, CommandRecorder, GpuArray, HostBuffer
from plugrad_webgpu.shaders.chains import (
    CONFLICTING_FUSION_LIMITS,
    MAX_COMPILE_WEIGHT,
    ChainShaderKey,
    chain_program,
    lay_out_chain,
)
from plugrad_webgpu.shaders.program import pack_parameters, plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from plugrad.extend import PlugradError
    from plugrad_webgpu.memory.buffers import BufferReference, Pool, Storage
    from plugrad_webgpu.shaders.chains import ElementwiseCall, InputAccess, OperandReferences
    from plugrad_webgpu.shaders.layout import Shape
    from plugrad_webgpu.shaders.program import Plan, Program

MAX_CHAIN_INPUTS = 12
"""The largest number of leaves of a chain: it keeps them alive, and a device can bind only so many."""
MAX_CHAIN_INPUT_BYTES = 1 << 29
"""The largest size of all leaves of a chain, unless it has at most `MIN_CHAIN_INPUTS`."""
MIN_CHAIN_INPUTS = 4
"""The number of leaves that a chain may have, whatever their size."""
MAX_OPEN_CHAINS = 64
"""The largest number of chains of a device that still take calls."""
LARGE_RESULT_BYTES = 1 << 22
"""The size of results from which on only one chain is open."""
MAX_CACHED_CHAIN_PLANS = 4096
"""The largest number of cached plans of fused dispatches."""
MAX_REMEMBERED_CHAINS = 1024
"""The largest number of remembered chain shaders, which are compiled at their second use."""
MAX_PROGRAMS_PER_GENERATION = 64
"""The largest number of programs between two releases of unused ones; a large application makes 20."""

ChainInput = tuple[Buffer, "InputAccess"]
"""The buffer of an input of a chain, and how its calls read it."""
CallWithOperandReferences = tuple["ElementwiseCall", "OperandReferences"]
"""A call of a chain, and references to its operands within the chain."""
ThreadAndElementCount = tuple[int, int]
"""The id of a thread, and the number of elements of a chain's results."""


class LazyBuffer(Buffer):
    """A buffer with a pending elementwise computation; accessing `storage` runs its chain of fused calls.

    When the values are recorded, the object becomes an ordinary buffer.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        """Return the storage, which is made when it is first read.

        Raises:
            AttributeError: anything else is absent.
        """
        if name == "storage":
            self.chain.calls.finish(self.chain)
        return object.__getattribute__(self, name)


class Chain:
    """A chain: pending elementwise calls of one thread on arrays of one size, which become one fused dispatch."""

    __slots__ = (
        "calls",
        "compile_weight",
        "fusion_limits",
        "is_open",
        "key",
        "leaves",
        "length",
        "loop",
        "members",
        "most_leaves",
        "numbered",
    )

    def __init__(self, calls: FusionQueue, key: ThreadAndElementCount, most_leaves: int) -> None:
        """Begin with no calls."""
        self.calls: FusionQueue = calls
        self.key: ThreadAndElementCount = key
        self.most_leaves: int = most_leaves
        self.members: list[tuple[CallWithOperandReferences, BufferReference]] = []
        self.length: int = 0
        self.compile_weight: int = 0
        self.leaves: dict[ChainInput, int] = {}
        self.numbered: int = 0
        self.loop: Shape | None = None
        """The shape along whose axes leaves are repeated, if any is."""
        self.fusion_limits: int = 0
        self.is_open: bool = True


class ChainDevice(CommandRecorder, Protocol):
    """The part of a device that chains need."""

    def record(self, plan: Plan, operands: list[Storage]) -> None:
        """Add the dispatch of a plan to the batch."""
        ...

    def forget(self, programs: Iterable[Program]) -> None:
        """Release the compiled pipelines of programs."""
        ...


class FusionQueue:
    """The pending elementwise calls of a device, and the cached plans of chains."""

    def __init__(
        self,
        device: ChainDevice,
        pool: Pool,
        lock: AbstractContextManager[object],
        max_operands: int,
    ) -> None:
        """Begin without chains, for a device that binds up to `max_operands` buffers."""
        self._device = device
        self._pool = pool
        self._lock = lock
        self._most_operands = max_operands
        self._most_leaves = min(MAX_CHAIN_INPUTS, max_operands - 1)
        self._open: dict[ThreadAndElementCount, Chain] = {}
        self._is_finishing = False
        self._plans: dict[Any, tuple[Plan, list[int]]] = {}
        self._seen: set[ChainShaderKey] = set()
        self._programs: dict[ChainShaderKey, Program] = {}
        self._earlier: dict[ChainShaderKey, Program] = {}

    def abandon(self, make_error: Callable[[], PlugradError]) -> None:
        """Make all further work raise the error that `make_error` returns."""
        self._lock = RefusingLock(make_error)

    def call(self, prepared_call: ElementwiseCall, *inputs: GpuArray) -> GpuArray:
        """Return the result of a call, which is recorded when its values are needed, or computed on the host.

        Raises:
            BackendUnavailable: an input belongs to another device.
            OutOfMemory: there is no room for the result.
        """
        if type(inputs[0].buffer) is HostBuffer:
            computed = self._device.hosting.try_compute(prepared_call, inputs)
            if computed is not None:
                return computed
        if not prepared_call.can_join_chain:
            return self._device.launch(prepared_call.single_call_plan, *inputs)
        with self._lock:
            buffer = self._pool.reserve(
                self._device, prepared_call.single_call_plan.size, LazyBuffer
            )
            key = (get_ident(), prepared_call.element_count)
            while True:
                chain = self._open.get(key)
                if (
                    chain is None
                    or chain.compile_weight + prepared_call.compile_weight > MAX_COMPILE_WEIGHT
                    or chain.numbered + len(inputs) > chain.most_leaves
                    or (
                        prepared_call.broadcast_shape is not None
                        and chain.loop not in (None, prepared_call.broadcast_shape)
                    )
                    or chain.fusion_limits | prepared_call.fusion_limits
                    == CONFLICTING_FUSION_LIMITS
                ):
                    chain = self._begin_chain(key, chain, prepared_call.single_call_plan.size)
                references = self._refer_to_inputs(chain, prepared_call.input_accesses, inputs)
                # No statement from here on calls a function: what a signal or the collection of garbage
                # may do comes before the test or after the call has joined.
                if chain.is_open:
                    buffer.chain = chain
                    buffer.place = chain.length
                    buffer.dtype = prepared_call.dtype
                    chain.length += 1
                    chain.compile_weight += prepared_call.compile_weight
                    chain.fusion_limits |= prepared_call.fusion_limits
                    chain.members += [((prepared_call, references), buffer.ref)]
                    if prepared_call.broadcast_shape is not None:
                        chain.loop = prepared_call.broadcast_shape
                    break
            return GpuArray(prepared_call.shape, prepared_call.dtype, buffer)

    def finish(self, chain: Chain) -> None:
        """Record the calls of a chain whose results are still needed, unless the chain is finished."""
        with self._lock:
            if chain.is_open:
                chain.is_open = False
                self._open.pop(chain.key, None)
            members = chain.members
            # An interrupt may come at any time until the members are dropped: then the next one who needs
            # a value records the same calls again.
            if len(members) == 1:
                (step, references), buffer_reference = members[0]
                buffer = buffer_reference()
                if buffer is not None:
                    leaves = [*chain.leaves]
                    operands = [leaves[~r][0].storage for r in references]
                    storage = self._pool.attach_storage(
                        buffer_reference, step.single_call_plan.size
                    )
                    operands.append(storage)
                    self._device.record(step.single_call_plan, operands)
                    buffer.storage = storage
                    buffer.__class__ = Buffer
            elif members:
                buffers = [buffer_reference() for _, buffer_reference in members]
                alive = [place for place, buffer in enumerate(buffers) if buffer is not None]
                if alive:
                    self._record_chain(chain, alive, [*chain.leaves])
                for buffer in buffers:
                    if buffer is not None:
                        buffer.storage = buffer.ref.storage  # type: ignore[assignment] - it is there now
                        buffer.__class__ = Buffer
            chain.members = []
            chain.leaves = {}

    def finish_own_thread(self) -> None:
        """Record this thread's pending calls."""
        thread = get_ident()
        for chain in [*self._open.values()]:
            if chain.key[0] == thread:
                self.finish(chain)

    def finish_all_threads(self) -> None:
        """Record the pending calls of all threads.

        This may need memory, for which the pool asks to record all calls that wait.
        """
        with self._lock:
            if not self._is_finishing:
                self._is_finishing = True
                try:
                    for chain in [*self._open.values()]:
                        self.finish(chain)
                finally:
                    self._is_finishing = False

    # --- joining a chain

    def _begin_chain(
        self,
        thread_and_element_count: ThreadAndElementCount,
        previous_chain: Chain | None,
        result_bytes: int,
    ) -> Chain:
        """Return a new chain for results of this many bytes, after finishing the previous one."""
        if previous_chain is not None:
            self.finish(previous_chain)
        if len(self._open) >= MAX_OPEN_CHAINS or result_bytes >= LARGE_RESULT_BYTES:
            self.finish_all_threads()
        most_leaves = max(
            MIN_CHAIN_INPUTS, min(self._most_leaves, MAX_CHAIN_INPUT_BYTES // result_bytes)
        )
        chain = self._open[thread_and_element_count] = Chain(
            self, thread_and_element_count, most_leaves
        )
        return chain

    def _refer_to_inputs(
        self, chain: Chain, input_accesses: Sequence[InputAccess], inputs: Sequence[GpuArray]
    ) -> OperandReferences:
        """Return references to a call's inputs within a chain, adding inputs that are new to the chain as leaves."""
        leaves = chain.leaves
        references: list[int] = []
        for k, x in enumerate(inputs):
            buffer = x.buffer
            reading = input_accesses[k]
            if type(buffer) is LazyBuffer:
                if buffer.chain is chain and buffer.dtype is reading.dtype:
                    references.append(buffer.place)
                    continue
                if buffer.device is not self._device:
                    raise foreign_buffer_error()
                self.finish(buffer.chain)  # if it was this chain, the call joins another one
            leaf = (buffer, reading)
            # No function is called between the test and the numbering.
            if leaf in leaves:
                number = leaves[leaf]
            elif buffer.device is not self._device:
                raise foreign_buffer_error()
            else:
                leaves[leaf] = number = chain.numbered
                chain.numbered = number + 1
            references.append(~number)
        return tuple(references)

    # --- recording a chain

    def _record_chain(
        self, chain: Chain, needed_indices: list[int], leaves: list[ChainInput]
    ) -> None:
        """Record the needed calls of a chain in one dispatch, or one by one."""
        members = chain.members
        pool = self._pool
        key = tuple([member for member, _ in members]), tuple(needed_indices)
        known = self._plans.get(key) or self._chain_plan(key, leaves)
        if known is None:
            self._record_calls_separately(chain, set(needed_indices), leaves)
            return
        chained, numbers = known
        operands = [leaves[number][0].storage for number in numbers]
        for place in needed_indices:
            (step, _), buffer_reference = members[place]
            operands.append(pool.attach_storage(buffer_reference, step.single_call_plan.size))
        self._device.record(chained, operands)

    def _record_calls_separately(
        self, chain: Chain, needed_indices: set[int], leaves: list[ChainInput]
    ) -> None:
        """Record each needed call of a chain in a dispatch of its own."""
        members, pool, device = chain.members, self._pool, self._device
        last_uses: dict[int, int] = {}
        is_needed = [place in needed_indices for place in range(len(members))]
        for place in reversed(range(len(members))):
            if is_needed[place]:
                for reference in members[place][0][1]:
                    if reference >= 0:
                        is_needed[reference] = True
                        last_uses.setdefault(reference, place)
        results: dict[int, Storage] = {}
        passing: dict[int, Buffer] = {}  # results that only other calls need
        for place, ((step, references), buffer_reference) in enumerate(members):
            if not is_needed[place]:
                continue
            size = step.single_call_plan.size
            if place not in needed_indices:
                passing[place] = pool.reserve(device, size, is_counted=False)
                buffer_reference = passing[place].ref
            operands = [results[r] if r >= 0 else leaves[~r][0].storage for r in references]
            results[place] = pool.attach_storage(buffer_reference, size)
            device.record(step.single_call_plan, [*operands, results[place]])
            for reference in references:
                if last_uses.get(reference) == place:
                    passing.pop(reference, None)

    def _chain_plan(
        self,
        chain_key: tuple[tuple[CallWithOperandReferences, ...], tuple[int, ...]],
        leaves: list[ChainInput],
    ) -> Any:
        """Return the plan of a chain's fused dispatch and the leaves that it binds, or None if it is not fused."""
        members, alive = chain_key
        numbers = sorted({~r for _, references in members for r in references if r < 0})
        place_of = {number: place for place, number in enumerate(numbers)}
        first = members[0][0]
        loop = next(
            (step.broadcast_shape for step, _ in members if step.broadcast_shape is not None),
            first.shape,
        )
        made = lay_out_chain(
            loop,
            [
                (
                    step.formula,
                    step.attribute_values,
                    tuple(r if r >= 0 else ~place_of[~r] for r in references),
                )
                for step, references in members
            ],
            [leaves[number][1] for number in numbers],
            alive,
        )
        if (
            len(pack_parameters(made.parameter_values)) > MAX_IMMEDIATE_BYTES
            or len(numbers) + len(alive) > self._most_operands
        ):
            return None
        chained = self._chain_program(made.shader_key)
        if chained is None:
            return None
        if len(self._plans) >= MAX_CACHED_CHAIN_PLANS:
            self._plans.clear()
        step = members[-1][0]
        size = sum(members[place][0].single_call_plan.size for place in alive)
        planned = plan(
            chained, made.parameter_values, made.invocation_count, step.shape, step.dtype
        )
        found = self._plans[chain_key] = replace(planned, size=size), numbers
        return found

    def _chain_program(self, shader_key: ChainShaderKey) -> Program | None:
        """Return the fused program of a chain, or None the first time that a chain has this shader."""
        found = self._programs.get(shader_key) or self._earlier.get(shader_key)
        if found is None:
            if shader_key not in self._seen:
                if len(self._seen) >= MAX_REMEMBERED_CHAINS:
                    self._seen.clear()
                self._seen.add(shader_key)
                return None
            self._seen.remove(shader_key)
            found = chain_program(shader_key)
        if shader_key not in self._programs:
            if len(self._programs) >= MAX_PROGRAMS_PER_GENERATION:
                self._begin_generation()
            self._programs[shader_key] = found
        return found

    def _begin_generation(self) -> None:
        """Begin a new generation of programs: release those that the previous generation did not use.

        Plans are made again in the next one, which shows the programs that it uses.
        """
        used = self._programs
        self._device.forget(
            [old for shader_key, old in self._earlier.items() if shader_key not in used]
        )
        self._earlier, self._programs, self._plans = used, {}, {}
