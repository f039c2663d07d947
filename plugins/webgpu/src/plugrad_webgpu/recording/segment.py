"""A segment: dispatches that a device runs one after the other, with nothing from the host in between.

What a call adds to the batch of the device depends on the buffers it is given: those of arguments, variables and host
values, and new ones for the results. A program is mostly called with the same few buffers in turn, so the commands for
the last choices are kept.
"""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from plugrad.extend import PlugradError, compute_host_value
from plugrad_webgpu.memory.buffers import ExternalBuffer, GpuArray
from plugrad_webgpu.memory.transfers import as_words_on_device
from plugrad_webgpu.recording.fusing import fuse_elementwise, remove_dead_work
from plugrad_webgpu.recording.recorder import ConstantPlaceholder, PlaceholderBuffer, RecordedCopy
from plugrad_webgpu.recording.rows import attach_calls_to_rows
from plugrad_webgpu.recording.slots import assign_slots
from plugrad_webgpu.shaders.layout import size_class
from plugrad_webgpu.shaders.program import EncodedDispatch, parameters_as_words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from plugrad.extend import HostValue, Shaped, Value
    from plugrad_webgpu.device.device import Device
    from plugrad_webgpu.memory.buffers import Buffer, Storage, StoragePart
    from plugrad_webgpu.recording.recorder import RecordedDispatch

    Command = Callable[[], None]
    """A function that adds a part of a segment's work to the batch."""
    RecordedWork = Sequence[RecordedDispatch | RecordedCopy]
    """The dispatches and copies that kernels have requested, in order."""

MAX_CACHED_COMMAND_LISTS: Final = 16
"""The number of lists of commands that a segment keeps, one for each choice of buffers."""
HOST_VALUE_BUFFER_COUNT: Final = 8
"""The number of buffers for host values: a batch may still use the buffers of earlier calls."""


class HostComputation(NamedTuple):
    """A host value, which a function computes at each call, and its buffer on the device."""

    step: HostValue
    """The step of the graph, which has the function."""
    spec: Shaped
    """The shape and dtype of the value."""
    buffer: PlaceholderBuffer
    """The placeholder of the buffer on the device."""

    def compute(self) -> bytes:
        """Return the value in the form stored on the device."""
        shape, dtype = self.spec
        try:
            values = compute_host_value(self.step.function, shape, dtype)
        except PlugradError as error:
            error.add_note(f"It was traced at {self.step.line}.")
            raise
        return as_words_on_device(values, dtype).tobytes()


class HostValueBuffer:
    """The buffer of the host values of one call, which are written together."""

    def __init__(self, device: Device, hosts: Sequence[HostComputation]) -> None:
        """Take a buffer from the pool, which is not counted as memory in use."""
        ends = [*accumulate(host.buffer.size for host in hosts)]
        self.buffer: Buffer = device.pool.take(device, size_class(ends[-1]), is_counted=False)
        self.parts: list[StoragePart] = [
            self.buffer.storage.part(end - host.buffer.size, host.buffer.size)
            for host, end in zip(hosts, ends, strict=True)
        ]
        self.batch: int = -1
        """The last batch that uses it."""
        self.host_values: list[bytes] | None = None
        """What it holds."""
        self._bytes = bytearray(ends[-1])

    def write(self, device: Device, host_values: list[bytes]) -> None:
        """Copy host values to the buffer; the caller holds the lock."""
        self.host_values = None  # an interrupt may come before the end
        for part, values in zip(self.parts, host_values, strict=True):
            self._bytes[part.offset : part.offset + len(values)] = values
        device.write(self.buffer.storage, self._bytes, len(self._bytes))
        self.host_values = host_values


class Segment:
    """Fused dispatches with assigned memory, which can be encoded."""

    def __init__(
        self,
        device: Device,
        work: RecordedWork,
        inputs: Mapping[Value, Buffer],
        outputs: Mapping[Value, GpuArray],
        hosts: Sequence[HostComputation],
    ) -> None:
        """Prepare work.

        Args:
            device: The device that runs it.
            work: What was recorded.
            inputs: The values that are arrays when the work begins, and the stand-ins for their buffers.
            outputs: The values that are needed when it has ended, and what was recorded for them.
            hosts: What is computed on the host when it begins; none of these is among the outputs.
        """
        self.device = device
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.hosts = hosts
        given = {*inputs.values(), *[host.buffer for host in hosts]}
        kept = [*dict.fromkeys([x.buffer for x in outputs.values()])]
        known = [x for x in kept if isinstance(x, ConstantPlaceholder)]
        passed = [x for x in kept if x in given]
        self.results = [x for x in kept if type(x) is PlaceholderBuffer and x not in given]
        work = remove_dead_work(work, self.results)
        fused = fuse_elementwise(work, set(self.results), device.max_operands - 1)
        fused = attach_calls_to_rows(fused, set(self.results), device.max_operands - 1)
        self.work = [x for x in fused if isinstance(x, RecordedCopy) or x.plan.grid is not None]
        slots = assign_slots(self.work, given.union(self.results))
        self.slots = slots.sizes
        self._result_sizes = tuple([x.size for x in self.results])
        self.passing_bytes = sum(slots.sizes)
        order = (*inputs.values(), *[host.buffer for host in hosts], *self.results)
        self.places: dict[Buffer, int] = {x: place for place, x in enumerate(order)}
        self.places |= {x: len(order) + place for x, place in slots.slot_by_buffer.items()}
        self.passed = [self.inputs[self.places[x]] for x in passed]
        self.create_constant_placeholder = [x.array.buffer for x in known]
        numbers = {x: number for number, x in enumerate((*self.results, *passed, *known))}
        self.made = [(v, x.shape, x.dtype, numbers[x.buffer]) for v, x in outputs.items()]
        """The shape and the dtype of each output, and the number of its buffer: those of the results come first, then
        those of inputs that are passed on, then known ones."""
        self._host_value_buffers = [
            HostValueBuffer(device, hosts) for _ in range(HOST_VALUE_BUFFER_COUNT if hosts else 0)
        ]
        self._turn = 0
        self._tables: dict[bytes, GpuArray] = {}
        """The arrays of the parameters that are too many for immediates, by their bytes."""
        self._commands: dict[tuple[int, ...], list[Command]] = {}
        self._generation = 0

    def __call__(self, values: dict[Value, Any]) -> None:
        """Run the work on the arrays of the inputs, and add those of the outputs."""
        device = self.device
        found: list[Storage] = [values[value].buffer.storage for value in self.inputs]
        host_values = [host.compute() for host in self.hosts]
        pool = device.pool
        with device.lock:
            held = self._find_host_value_buffer(host_values) if host_values else None
            if held is not None:
                found += held.parts
            results = pool.take_all(device, self._result_sizes)
            found += [buffer.storage for buffer in results]
            if self.passing_bytes:
                pool.count_temporary(self.passing_bytes)
            self._encode(found)
            if held is not None:
                held.batch = device.batch
        buffers = [
            *results,
            *[values[value].buffer for value in self.passed],
            *self.create_constant_placeholder,
        ]
        for value, shape, dtype, number in self.made:
            values[value] = GpuArray(shape, dtype, buffers[number])

    def _find_host_value_buffer(self, host_values: list[bytes]) -> HostValueBuffer:
        """Return a buffer that holds host values: the last one, if it does so already or is free to be written.

        What is written overtakes the batch, which may use the buffers of the calls before.
        """
        device, held = self.device, self._host_value_buffers[self._turn]
        if held.host_values == host_values:
            return held
        if held.batch == device.batch:
            self._turn = (self._turn + 1) % HOST_VALUE_BUFFER_COUNT
            held = self._host_value_buffers[self._turn]
            if held.batch == device.batch:
                device.flush()
        held.write(device, host_values)
        return held

    def _encode(self, buffers: Sequence[Storage]) -> None:
        """Encode the work for the given buffers into the batch."""
        device, groups = self.device, self.device.groups
        scratch = device.scratch.take(self.slots)  # which is kept until all is encoded
        key = *[storage.serial for storage in buffers], device.scratch.generation
        groups.in_use = len(self.work)
        try:
            commands = self._find_commands(key, buffers, scratch)
            for index in range(len(commands)):
                if self._generation != groups.generation:  # to make room, some have been released
                    commands = self._find_commands(key, buffers, scratch)
                commands[index]()
        finally:
            groups.in_use = 0

    def _find_commands(
        self, cache_key: tuple[int, ...], buffers: Sequence[Storage], scratch: Sequence[Buffer]
    ) -> list[Command]:
        """Return the cached commands that encode the work for given buffers."""
        generation = self.device.groups.generation
        if generation != self._generation:
            self._generation = generation
            self._commands.clear()
        commands = self._commands.get(cache_key)
        if commands is None:
            commands = self._make_commands([*buffers, *[buffer.storage for buffer in scratch]])
            if len(self._commands) >= MAX_CACHED_COMMAND_LISTS:
                del self._commands[next(iter(self._commands))]
            self._commands[cache_key] = commands
        return commands

    def _make_commands(self, storages: Sequence[Storage]) -> list[Command]:
        """Return commands that encode the work, in runs of dispatches that fit a batch."""
        device, places = self.device, self.places
        commands: list[Command] = []
        run: list[EncodedDispatch] = []
        nbytes = 0

        def end_run() -> None:
            """End a run of dispatches, which one command encodes."""
            nonlocal run, nbytes
            if run:
                commands.append(partial(device.encode, run, nbytes))
                run, nbytes = [], 0

        for each in self.work:
            operands = [
                x.array.buffer.storage
                if isinstance(x, ConstantPlaceholder)
                else storages[places[x]]
                for x in (*each.reads, *each.writes)
            ]
            if isinstance(each, RecordedCopy):
                end_run()
                source, own = operands
                command = partial(
                    device.copy_bytes,
                    source,
                    each.source_byte,
                    own,
                    each.target_byte,
                    each.nbytes,
                )
                commands.append(command)
                continue
            plan = each.plan
            if any(isinstance(s, ExternalBuffer) or s.size > device.part_bytes for s in operands):
                end_run()
                commands.append(partial(device.record, plan, operands))
                continue
            assert plan.grid is not None
            program = plan.program
            pipeline = device.pipeline(program, len(operands))
            if program.has_table:
                table = self._tables.get(plan.parameters)
                if table is None:
                    table = device.constant(parameters_as_words, plan.parameters)
                    self._tables[plan.parameters] = table
                operands.append(table.buffer.storage)
            group = device.groups.find(program, operands)
            run.append(
                EncodedDispatch(
                    pipeline, group, b"" if program.has_table else plan.parameters, plan.grid
                )
            )
            nbytes += plan.size
            if len(run) == device.batch_limit:
                end_run()
        end_run()
        return commands
