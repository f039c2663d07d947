"""The device: compiled pipelines, bind groups and the batch of dispatches that is being recorded.

Recording a dispatch takes about 3 microseconds and submitting one by itself takes 60. So dispatches
are gathered in one compute pass until the batch is full or a value is read.
"""

# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from collections import deque
from contextlib import closing, suppress
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad.extend import DeviceLost, OutOfMemory, as_dtype, hold_safely
from plugrad_webgpu.algorithms.subgroups import measure_subgroup_size
from plugrad_webgpu.device.bindings import BindGroups
from plugrad_webgpu.device.hosting import HostArrays
from plugrad_webgpu.device.pending import FusionQueue
from plugrad_webgpu.driver import exits
from plugrad_webgpu.driver.forks import RefusingLock, abandon_after_fork
from plugrad_webgpu.driver.interrupts import uninterruptible
from plugrad_webgpu.driver.limits import (
    check_operand_count,
    check_operand_part_count,
    check_shader,
    foreign_buffer_error,
)
from plugrad_webgpu.memory.buffers import ExternalBuffer, GpuArray, Pool, max_pooled_bytes
from plugrad_webgpu.memory.scratch import ScratchBuffers
from plugrad_webgpu.shaders.elements import stored_nbytes
from plugrad_webgpu.shaders.lanes import choose_lane_rewrites
from plugrad_webgpu.shaders.layout import size_class
from plugrad_webgpu.shaders.parts import split_bindings
from plugrad_webgpu.shaders.program import parameters_as_words
from plugrad_webgpu.shaders.words import load_by_long_words

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray
    from wgpu import GPUBuffer, GPUDevice

    from plugrad.extend import DType, Memory, PlugradError
    from plugrad_webgpu.driver.interface import BufferRange, Driver, Handle, OpenPass, RawDevice
    from plugrad_webgpu.memory.buffers import Storage
    from plugrad_webgpu.shaders.layout import Shape
    from plugrad_webgpu.shaders.program import EncodedDispatch, Plan, Program

# A GPU should start early. A software device competes with the recording for the processor and hands
# each dispatch to its threads: it is a third faster when recording is done (benchmarks/run.py, chain).
BATCH_MAX_DISPATCHES = {"hardware": 64, "software": 1024}
"""The largest number of dispatches in a submission, by whether a GPU or the processor computes."""
BATCH_MAX_BYTES = 1 << 26  # of outputs: large work should start early
"""The size of the outputs of a batch from which on it is submitted."""
TRANSFER_MAX_BYTES = 1 << 22  # of one transfer to the host: more leaves the caches of a processor
TRANSFER_MAX_COPIES = 256  # of small arrays in one transfer
CACHED_CONSTANTS_MAX_BYTES = 1 << 26  # of tables: beyond, they are made again


class Device:
    """An opened device: its buffers, its programs and the batch that is being recorded.

    A lock makes it safe to call from several threads. In a forked child every call raises an error.
    """

    def __init__(
        self, driver: Driver, raw: RawDevice, largest: int, part_bytes: int, *, is_software: bool
    ) -> None:
        """Manage `raw`, which has buffers of up to `largest` bytes, and binds up to `part_bytes` of them at once.

        The driver records dispatches on it.
        """
        self.part_bytes = part_bytes
        self.is_software = is_software
        self.shared_bytes: int = raw.max_shared_bytes
        self.is_abandoned: bool = False
        self.batch_limit: int = BATCH_MAX_DISPATCHES["software" if is_software else "hardware"]
        self.batch: int = 1
        self.flushes: int = 0
        self.tiles: Mapping[str, str] = {}
        self._driver = driver
        self._raw = raw
        self._lock: AbstractContextManager[object] = hold_safely(RLock())
        budget = max_pooled_bytes(largest, is_software=is_software)
        self.pool: Pool = Pool(self, largest, self._release_scratch_before_trim, self._lock, budget)
        self.calls: FusionQueue = FusionQueue(self, self.pool, self._lock, raw.max_operands)
        self.call: Callable[..., GpuArray] = self.calls.call
        self.hosting: HostArrays = HostArrays(self, self.pool, self._lock)
        self._constants: dict[tuple[Any, ...], GpuArray] = {}
        self.groups: BindGroups = BindGroups(self, driver, raw)
        self.scratch: ScratchBuffers = ScratchBuffers(self, self.pool)
        self.max_operands: int = raw.max_operands
        self._pipelines: dict[Program, Handle] = {}
        self._split_pipelines: dict[tuple[Program, tuple[int, ...]], Handle] = {}
        self._has_large = False
        self._pass: OpenPass | None = None
        self._handle: Handle = None
        self._current: Program | None = None
        self._subgroup: int | None = None
        self.loads_64_bit_words: bool = is_software and raw.loads_64_bit_words
        """Whether shaders load vectors as words of 64 bits."""
        self.shader_rewrites = choose_lane_rewrites(raw.has_doubles) if is_software else ()
        self._parameters = b""
        self._dispatches = 0
        self._bytes = 0
        abandon_after_fork(self)
        exits.register_exit_wait(self._lock)

    @property
    def lock(self) -> AbstractContextManager[object]:
        """The lock that makes several calls atomic; entering it raises if the device refuses work."""
        return self._lock

    def abandon(self, make_error: Callable[[], PlugradError]) -> Any:
        """Refuse all further work with the error that `make_error` returns; return the old lock."""
        self.is_abandoned = True
        lock, self._lock = self._lock, RefusingLock(make_error)
        self.pool.abandon(make_error)
        self.calls.abandon(make_error)
        self.hosting.abandon(make_error)
        return lock

    @property
    def subgroup_size(self) -> int:
        """The number of invocations in a subgroup; 0 if the device has no subgroups."""
        if self._subgroup is None:
            self._subgroup = measure_subgroup_size(self) if self._raw.has_subgroups else 0
        return self._subgroup

    # --- memory

    def create_buffer(self, nbytes: int) -> Handle | None:
        """Return a new storage buffer, or None if memory is exhausted."""
        self._has_large = self._has_large or nbytes > self.part_bytes
        return self._raw.create_buffer(nbytes)

    def release_buffers(self, storages: Sequence[Storage]) -> None:
        """Release buffers; the driver frees their memory after submitted work has ended."""
        self.flush()
        self.groups.release(storages)
        for storage in storages:
            self._driver.release_buffer(storage.handle)

    def release_unused(self) -> bool:
        """Release compiled programs and free buffers of the pool; return whether arrays still use buffers.

        All that is made again if it is needed. The library keeps a device as long as anything of it exists.
        """
        with self._lock, uninterruptible:
            with suppress(DeviceLost):
                self._release_scratch_before_trim()
                self.flush()
            self.pool.release_free()
            self.groups.release_all()
            for pipeline in (*self._pipelines.values(), *self._split_pipelines.values()):
                self._driver.release_pipeline(pipeline)
            self._pipelines.clear()
            self._split_pipelines.clear()
            self.groups.release_layouts()
        with suppress(DeviceLost):
            self.synchronize()  # the library frees what is released when work that comes later is done
        with self._lock, uninterruptible:
            self._raw.release_staging()
            return self.pool.usage.buffers > 0

    def empty(self, shape: Shape, dtype: DType) -> GpuArray:
        """Return an uninitialized array."""
        nbytes = stored_nbytes(shape, dtype)
        return GpuArray(shape, dtype, self.pool.take(self, size_class(nbytes)))

    def memory(self) -> Memory:
        """Return the memory of the arrays and of the pool in bytes."""
        # Calls that wait keep their inputs, of which the program may have released some.
        if not self.is_abandoned:
            self.record_pending_calls()
        return self.pool.memory()

    # --- work

    def prepare(self, program: Program, operand_count: int) -> None:
        """Compile a program unless it is compiled."""
        with self._lock:
            self.pipeline(program, operand_count)

    def forget(self, programs: Iterable[Program]) -> None:
        """Release compiled programs; if used again, they are compiled again."""
        with self._lock, uninterruptible:
            self.flush()
            for program in programs:
                pipelines = [self._pipelines.pop(program, None)]
                split = [key for key in self._split_pipelines if key[0] is program]
                pipelines += map(self._split_pipelines.pop, split)
                for pipeline in pipelines:
                    if pipeline is not None:
                        self._driver.release_pipeline(pipeline)

    def record_pending_calls(self) -> None:
        """Record all pending elementwise calls."""
        self.calls.finish_all_threads()

    def launch(self, plan: Plan, *inputs: GpuArray) -> GpuArray:
        """Record the dispatch of a plan and return its output, which later calls may use at once."""
        buffer = self.pool.take(self, plan.size)
        self.record(plan, [*[x.buffer.storage for x in inputs], buffer.storage])
        return GpuArray(plan.shape, plan.dtype, buffer)

    def launch_into(self, plan: Plan, output: GpuArray, *inputs: GpuArray) -> None:
        """Record the dispatch of a plan that writes a part of an array under construction."""
        self.record(plan, [*[x.buffer.storage for x in inputs], output.buffer.writable_storage()])

    def copy(
        self, source: GpuArray, source_byte: int, target: GpuArray, target_byte: int, nbytes: int
    ) -> None:
        """Submit the batch, and copy bytes of an array to another one under construction."""
        read, written = source.buffer.storage, target.buffer.writable_storage()
        self.copy_bytes(read, source_byte, written, target_byte, nbytes)

    def copy_bytes(
        self, source: Storage, source_byte: int, target: Storage, target_byte: int, nbytes: int
    ) -> None:
        """Submit the batch and a copy between buffers."""
        with self._lock, uninterruptible:
            if source.owner is not self or target.owner is not self:
                raise foreign_buffer_error()
            if isinstance(source, ExternalBuffer):
                self.check_external_buffers([source])
            encoder = None if self._pass is None else self._end_pass(self._pass)
            self._raw.submit_copy(
                encoder,
                (source.handle, source.offset + source_byte, nbytes),
                (target.handle, target.offset + target_byte, nbytes),
            )

    def record(self, plan: Plan, operands: list[Storage]) -> None:
        """Add the dispatch of a plan to the batch if there is work to do; submit the batch when it is full."""
        grid = plan.grid
        if grid is None:
            return
        program = plan.program
        with self._lock:
            if program.has_table:
                # It is made before the pass is needed: an upload may end the batch.
                table = self.constant(parameters_as_words, plan.parameters)
                operands = [*operands, table.buffer.storage]
            if self._pass is None:
                self._begin_pass()
            if self._has_large and any(s.size > self.part_bytes for s in operands):
                self._record_with_split_operands(plan, operands)
                return
            handle = self._handle
            # What the pass is set to is forgotten before it changes and noted when it has: an interrupt
            # between the two would otherwise let the next dispatch run another program.
            if program is not self._current:
                pipeline = self._pipelines.get(program) or self._compile(
                    program, len(operands) - program.has_table
                )
                self._current = None
                self._parameters = b""
                self._driver.set_pipeline(handle, pipeline)
                self._current = program
            group = self.groups.find(program, operands)
            self._driver.set_bind_group(handle, 0, group, 0, self._driver.NULL)
            parameters = plan.parameters
            if parameters != self._parameters and not program.has_table:
                self._parameters = b""
                self._driver.set_immediates(handle, 0, parameters, len(parameters))
                self._parameters = parameters
            self._driver.dispatch_workgroups(handle, *grid)
            self._dispatches += 1
            self._bytes += plan.size
            if self._dispatches >= self.batch_limit or self._bytes >= BATCH_MAX_BYTES:
                self.flush()

    def pipeline(self, program: Program, operand_count: int) -> Handle:
        """Return the pipeline of a program, compiled if need be; the caller holds the lock."""
        return self._pipelines.get(program) or self._compile(program, operand_count)

    def encode(self, dispatches: Sequence[EncodedDispatch], nbytes: int) -> None:
        """Add already encoded dispatches, which write `nbytes` bytes, to the batch."""
        with self._lock:
            if self._pass is None:
                self._begin_pass()
            handle, driver = self._handle, self._driver
            self._current, self._parameters = None, b""
            set_bind_group, dispatch = driver.set_bind_group, driver.dispatch_workgroups
            no_offsets, current, current_parameters = driver.NULL, None, b""
            for pipeline, group, parameters, (x, y, z) in dispatches:
                if pipeline is not current:
                    driver.set_pipeline(handle, pipeline)
                    current, current_parameters = pipeline, b""
                set_bind_group(handle, 0, group, 0, no_offsets)
                if parameters and parameters != current_parameters:
                    driver.set_immediates(handle, 0, parameters, len(parameters))
                    current_parameters = parameters
                dispatch(handle, x, y, z)
            self._dispatches += len(dispatches)
            self._bytes += nbytes
            if self._dispatches >= self.batch_limit or self._bytes >= BATCH_MAX_BYTES:
                self.flush()

    def _record_with_split_operands(self, plan: Plan, operands: list[Storage]) -> None:
        """Record a dispatch with operands that are larger than a binding."""
        program, step = plan.program, self.part_bytes
        parts = [
            [
                (s.handle, s.offset + start, min(step, s.size - start))
                for start in range(0, s.size, step)
            ]
            for s in operands
        ]
        counts = tuple(map(len, parts))
        outputs = sum(counts[len(counts) - program.has_table - program.outputs :])
        outputs -= program.has_table
        pipeline = self._split_pipelines.get((program, counts))
        if pipeline is None:
            pipeline = self._compile(program, len(operands) - program.has_table, counts)
        layout = self.groups.layout(sum(counts), outputs, program.has_table)
        handle = self._handle
        self._current, self._parameters = None, b""
        self._driver.set_pipeline(handle, pipeline)
        group = layout.bind(self._raw.handle, [part for each in parts for part in each])
        self._driver.set_bind_group(handle, 0, group, 0, self._driver.NULL)
        self._driver.release_bind_group(group)  # the pass keeps it
        if not program.has_table:
            self._driver.set_immediates(handle, 0, plan.parameters, len(plan.parameters))
        assert plan.grid is not None
        self._driver.dispatch_workgroups(handle, *plan.grid)
        self.flush()

    def flush(self) -> None:
        """Submit the batch without waiting for it."""
        with self._lock, uninterruptible:
            if self._pass is not None:
                self._raw.submit(self._end_pass(self._pass))

    def synchronize(self) -> None:
        """Submit all work and wait until the device is idle."""
        self.record_pending_calls()
        self._download([])

    # --- transfers

    def upload(self, data: object, nbytes: int, shape: Shape, dtype: DType) -> GpuArray:
        """Return a new array with a copy of `nbytes` of host memory, a multiple of four."""
        with self._lock, uninterruptible:
            buffer = self.pool.take(self, size_class(nbytes), oldest=True)
            self.write(buffer.storage, data, nbytes)
            return GpuArray(shape, dtype, buffer)

    def write(self, storage: Storage, data: object, nbytes: int) -> None:
        """Copy host memory to a buffer that no call has used yet."""
        with self._lock, uninterruptible:
            # An upload overtakes the batch: submit it first if it may still use this buffer.
            if nbytes and storage.freed_in == self.batch:
                self.flush()
            if nbytes:
                self._raw.write(storage.handle, data, nbytes)

    def download(self, array: GpuArray, out: NDArray[Any], stored_dtype: np.dtype[Any]) -> None:
        """Wait for an array's values and copy them to a contiguous host array; elements are stored as `stored_dtype`.

        Raises:
            DeviceLost: the device does not return its values.
            OutOfMemory: there is no memory for the transfer.
        """
        values, end = out.reshape(-1), 0
        if 0 < (size := values.size * stored_dtype.itemsize) <= TRANSFER_MAX_BYTES:
            self._download([(array, 0, size)], values, stored_dtype)
            return
        with closing(self.read([array])) as parts:
            for memory in parts:
                part = np.frombuffer(memory, stored_dtype)
                start, end = end, end + part.size
                np.copyto(values[start:end], part, casting="unsafe")

    def read(self, arrays: Iterable[GpuArray]) -> Generator[Any]:
        """Yield the bytes of arrays in parts; each part is valid until the next one.

        The device copies the next part while the program uses one.

        Raises:
            DeviceLost: the device does not return values.
            OutOfMemory: there is no memory for the transfer.
        """
        sent: deque[tuple[Any, int]] = deque()
        try:
            for copies in _iter_transfers(arrays):
                with uninterruptible:
                    sent.append(self._submit_reads(copies))
                if len(sent) > 1:
                    yield self._wait_for_values(*sent[0])
                    self._recycle_stagings(sent)
            if sent:
                yield self._wait_for_values(*sent[0])
        finally:
            while sent:
                self._recycle_stagings(sent)

    def constant(self, make: Callable[..., NDArray[Any]], *sizes: int | bytes) -> GpuArray:
        """Return the cached array of the values that `make` computes from some integers.

        It is not counted as memory in use, and not kept if the device runs out of memory.
        """
        key = (make, *sizes)
        found = self._constants.get(key)
        if found is not None:
            return found
        values = make(*sizes)
        with self._lock, uninterruptible:
            made = self.upload(values, values.nbytes, values.shape, as_dtype(values.dtype))
            self.pool.exclude_from_usage(made.buffer)
            kept = sum(x.buffer.storage.size for x in self._constants.values())
            if kept + values.nbytes > CACHED_CONSTANTS_MAX_BYTES:
                self._constants.clear()
            self._constants[key] = made
        return made

    # --- sharing

    @property
    def wgpu_device(self) -> GPUDevice:
        """The wgpu-py device."""
        return self._raw.device

    def handle_of(self, buffer: GPUBuffer) -> Handle:
        """Return the driver's handle of a wgpu buffer."""
        return self._raw.handle_of(buffer)

    def lend(self, array: GpuArray) -> GPUBuffer:
        """Submit the work that computes an array, and return its wgpu buffer for other users of the device."""
        with self._lock, uninterruptible:
            storage = array.buffer.writable_storage()
            self.flush()
            return self._raw.lend(storage.handle, storage.size, array)

    def check_external_buffers(self, external_buffers: Iterable[ExternalBuffer]) -> None:
        """Raise unless external buffers are still valid for the next submission.

        Raises:
            ArgumentValueError: one has been destroyed, or is mapped.
        """
        with self._lock:
            self.groups.check_external_buffers(external_buffers)

    # --- inside

    def _download(
        self,
        copies: Sequence[tuple[GpuArray, int, int]],
        out: NDArray[Any] | None = None,
        stored_dtype: np.dtype[Any] | None = None,
    ) -> None:
        """Submit the batch, wait, and fill `out`, if given, with copies of (array, first byte, number of bytes).

        It does what `read` does for one part, in less time. An interrupt ends the wait. If the handler of
        the interrupt lets the program go on, it begins again.
        """
        has_arrived = False
        while not has_arrived:
            with uninterruptible:
                staging, size = self._submit_reads(copies)
                try:
                    has_arrived = self._raw.wait_for(staging, self._lock)
                    if has_arrived and out is not None:
                        part = np.frombuffer(staging.values(size), stored_dtype)
                        np.copyto(out, part, casting="unsafe")
                finally:
                    with self._lock:
                        self._raw.recycle_staging(staging)

    def _submit_reads(self, copies: Sequence[tuple[GpuArray, int, int]]) -> tuple[Any, int]:
        """Submit the batch and copies as `_download` takes them; return the host memory of the copies, and its bytes.

        Without copies, the memory arrives when all work is done. The caller gives it back.
        """
        with self._lock:
            self.calls.finish_own_thread()
            parts: list[BufferRange] = []
            for array, start, size in copies:
                storage = array.buffer.storage
                if isinstance(storage, ExternalBuffer):
                    self.check_external_buffers([storage])
                parts.append((storage.handle, start, size))
            size = sum(part[2] for part in parts)
            staging = self._acquire_staging(size)
            try:
                dispatches = 0 if self._pass is None else self._dispatches
                encoder = None if self._pass is None else self._end_pass(self._pass)
                self._raw.submit_readback(encoder, staging, parts, dispatches)
            except BaseException:
                self._raw.recycle_staging(staging)
                raise
            return staging, size

    def _wait_for_values(self, staging: Any, nbytes: int) -> Any:
        """Wait for a transfer, and return host memory with its bytes.

        Nothing is locked during the wait. An interrupt ends it. If the handler of the interrupt lets
        the program go on, so does the wait.
        """
        has_arrived = False
        while not has_arrived:
            with uninterruptible:
                has_arrived = self._raw.wait_for(staging, self._lock)
        return staging.values(nbytes)

    def _recycle_stagings(self, transfers: deque[tuple[Any, int]]) -> None:
        with uninterruptible, self._lock:
            self._raw.recycle_staging(transfers.popleft()[0])

    def _acquire_staging(self, nbytes: int) -> Any:
        staging = self._raw.acquire_staging(nbytes)
        if staging is None:
            self.pool.trim()
            staging = self._raw.acquire_staging(nbytes)
        if staging is None:
            raise OutOfMemory(
                f"webgpu: the device has no memory to transfer {nbytes} bytes to the host; release arrays, or "
                "read the values in smaller parts"
            )
        return staging

    def _begin_pass(self) -> None:
        opened = self._driver.ComputePass(self._raw.handle)
        self._handle = opened.handle
        self._current = None
        self._dispatches = 0
        self._bytes = 0
        self._pass = opened

    def _end_pass(self, open_pass: OpenPass) -> Handle:
        """Close the pass of the batch and return its encoder."""
        encoder = open_pass.end()
        self._pass = None
        self._handle = None
        self.batch += 1
        self.flushes += 1
        self.groups.end_batch(encoder)
        return encoder

    def _compile(
        self, program: Program, operand_count: int, part_counts: tuple[int, ...] = ()
    ) -> Handle:
        """Return the compiled pipeline of a program; `part_counts` are the numbers of parts of split operands."""
        source, label = program.source(), program.label
        check_shader(label, source, self.shared_bytes, is_software=self.is_software)
        if program.has_table:
            binding = f"@group(0) @binding({operand_count}) var<storage, read> parameters"
            source = source.replace("var<immediate> parameters", binding)
            operand_count += 1
        output_count = program.outputs
        if part_counts:
            source = split_bindings(source, label, part_counts, self.part_bytes)
            last = operand_count - program.has_table
            operand_count = sum(part_counts)
            output_count = sum(part_counts[last - output_count : last])
            check_operand_part_count(label, operand_count, self._raw.max_operands, self.part_bytes)
        else:
            for rewrite in self.shader_rewrites:
                source = rewrite(source)
            if self.loads_64_bit_words:
                source = load_by_long_words(source)
        check_operand_count(label, operand_count, self._raw.max_operands)
        with uninterruptible:  # the library calls back, where an interrupt would be lost
            layout = self.groups.layout(operand_count, output_count, program.has_table)
            pipeline = self._raw.compile_pipeline(
                source, label, program.entry_point, layout.pipeline_layout
            )
            if part_counts:
                self._split_pipelines[program, part_counts] = pipeline
            else:
                self._pipelines[program] = pipeline
        return pipeline

    def _release_scratch_before_trim(self) -> None:
        self._constants.clear()
        self.scratch.release()
        self.record_pending_calls()


def _iter_transfers(arrays: Iterable[GpuArray]) -> Iterator[list[tuple[GpuArray, int, int]]]:
    """Divide the bytes of arrays into transfers to the host: lists of (array, first byte, number of bytes)."""
    copies: list[tuple[GpuArray, int, int]] = []
    room = TRANSFER_MAX_BYTES
    for array in arrays:
        start, end = 0, stored_nbytes(array.shape, array.dtype)
        while start < end:
            size = min(room, end - start)
            copies.append((array, start, size))
            start, room = start + size, room - size
            if not room or len(copies) == TRANSFER_MAX_COPIES:
                yield copies
                copies, room = [], TRANSFER_MAX_BYTES
    if copies:
        yield copies
