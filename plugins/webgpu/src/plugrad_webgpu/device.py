"""The device: compiled pipelines, bind groups and the batch of dispatches that is being recorded.

Recording a dispatch takes about 3 microseconds and submitting one by itself takes 60. So dispatches
are gathered in one compute pass until the batch is full or a value is read.
"""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any

from plugrad.extend import OutOfMemory, as_dtype
from plugrad_webgpu import native
from plugrad_webgpu.buffers import GpuArray, Pool
from plugrad_webgpu.elements import words_in
from plugrad_webgpu.forks import Refusal, abandon_when_forked
from plugrad_webgpu.interrupts import whole
from plugrad_webgpu.layout import nbytes_of, size_class
from plugrad_webgpu.limits import check_operands

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from plugrad.extend import DType
    from plugrad_webgpu.buffers import Storage
    from plugrad_webgpu.layout import Shape
    from plugrad_webgpu.native import Handle, NativeDevice
    from plugrad_webgpu.program import Plan, Program

BATCH_DISPATCHES = {"hardware": 64, "software": 1024}
# A GPU should start early. A software device competes with the recording for the processor and hands
# each dispatch to its threads: it is a third faster when recording is done (benchmarks/run.py, chain).
BATCH_BYTES = 1 << 26  # of outputs: large work should start early
MOST_BIND_GROUPS = 4096
CONSTANT_BYTES = 1 << 26  # of tables: beyond, they are made again


class Device:
    """An opened device: its buffers, its programs and the batch that is being recorded.

    A lock makes it safe to call from several threads. In a forked child every call raises an error.
    """

    def __init__(self, raw: NativeDevice, largest: int, *, is_software: bool) -> None:
        """Manage `raw`, which can bind buffers of up to `largest` bytes."""
        self.is_software = is_software
        self.is_abandoned = False
        self.batch_limit = BATCH_DISPATCHES["software" if is_software else "hardware"]
        self.batch = 1
        self.flushes = 0
        self._raw = raw
        self._lock: AbstractContextManager[object] = RLock()
        self.pool = Pool(self, largest, self._before_trim, self._lock)
        self._constants: dict[tuple[Any, ...], GpuArray] = {}
        self._layouts: dict[int, native.BindLayout] = {}
        self._pipelines: dict[Program, Handle] = {}
        self._bind_groups: dict[tuple[int, ...], Handle] = {}
        self._pass: native.Pass | None = None
        self._handle: Handle = None
        self._current: Program | None = None
        self._parameters = b""
        self._dispatches = 0
        self._bytes = 0
        abandon_when_forked(self)

    def abandon(self) -> None:
        """Refuse all further work: this process is a forked child, and the device is the parent's."""
        self.is_abandoned = True
        self._lock = Refusal()
        self.pool.abandon()

    # --- memory

    def create_buffer(self, size: int) -> Handle | None:
        """Return a new storage buffer, or None if the device has no memory."""
        return self._raw.create_buffer(size)

    def release_buffer(self, handle: Handle) -> None:
        """Give a buffer back to the driver, which keeps it until the submitted work is done."""
        native.release_buffer(handle)

    def empty(self, shape: Shape, dtype: DType) -> GpuArray:
        """Return an array of undefined values."""
        nbytes = nbytes_of(shape, words_in(dtype))
        return GpuArray(shape, dtype, self.pool.take(self, size_class(nbytes)))

    # --- work

    def launch(self, plan: Plan, *inputs: GpuArray) -> GpuArray:
        """Record one call and return its output, which later calls may use at once."""
        buffer = self.pool.take(self, plan.size)
        self.record(plan, [*[x.buffer.storage for x in inputs], buffer.storage])
        return GpuArray(plan.shape, plan.dtype, buffer)

    def launch_into(self, plan: Plan, output: GpuArray, *inputs: GpuArray) -> None:
        """Record a call that writes some elements of an array that is still being made."""
        self.record(plan, [*[x.buffer.storage for x in inputs], output.buffer.storage])

    def record(self, plan: Plan, operands: list[Storage]) -> None:
        """Add a dispatch to the batch if there is work to do; submit the batch when it is full."""
        grid = plan.grid
        if grid is None:
            return
        with self._lock:
            if self._pass is None:
                self._begin()
            handle = self._handle
            program = plan.program
            # What the pass is set to is forgotten before it changes and noted when it has: an interrupt
            # between the two would otherwise let the next dispatch run another program.
            if program is not self._current:
                pipeline = self._pipelines.get(program) or self._compile(program, len(operands))
                self._current = None
                self._parameters = b""
                native.set_pipeline(handle, pipeline)
                self._current = program
            key = tuple([s.serial for s in operands])
            group = self._bind_groups.get(key) or self._bind(key, operands)
            native.set_bind_group(handle, 0, group, 0, native.NULL)
            parameters = plan.parameters
            if parameters != self._parameters:
                self._parameters = b""
                native.set_immediates(handle, 0, parameters, len(parameters))
                self._parameters = parameters
            native.dispatch_workgroups(handle, *grid)
            self._dispatches += 1
            self._bytes += plan.size
            if self._dispatches >= self.batch_limit or self._bytes >= BATCH_BYTES:
                self.flush()

    def flush(self) -> None:
        """Submit the batch without waiting for it."""
        with self._lock, whole:
            if self._pass is not None:
                self._raw.submit(self._end(self._pass))

    def synchronize(self) -> None:
        """Submit the batch and wait until the device is idle."""
        with self._lock, whole:
            self.flush()
            self._raw.wait()

    # --- transfers

    def upload(self, data: object, nbytes: int, shape: Shape, dtype: DType) -> GpuArray:
        """Return a new array with a copy of `nbytes` of host memory, a multiple of four."""
        with self._lock, whole:
            buffer = self.pool.take(self, size_class(nbytes), oldest=True)
            if nbytes:
                # An upload overtakes the batch: submit it first if it may still use this buffer.
                if buffer.storage.freed_in == self.batch:
                    self.flush()
                self._raw.write(buffer.storage.handle, data, nbytes)
            return GpuArray(shape, dtype, buffer)

    def download(self, array: GpuArray, out: object, nbytes: int) -> None:
        """Copy an array to writable host memory, waiting for its values.

        Raises:
            OutOfMemory: there is no memory for the transfer.
        """
        with self._lock, whole:
            if not self._raw.make_room_to_read(nbytes):
                self.pool.trim()
                if not self._raw.make_room_to_read(nbytes):
                    raise OutOfMemory(
                        f"webgpu: the device has no memory to transfer {nbytes} bytes to the host; release arrays, or "
                        "read the values in smaller parts"
                    )
            encoder = None if self._pass is None else self._end(self._pass)
            self._raw.read(encoder, array.buffer.storage.handle, out, nbytes)

    def constant(self, make: Callable[..., NDArray[Any]], *sizes: int) -> GpuArray:
        """Return an array of what a function makes of some sizes, kept for the next time.

        It is not counted as memory in use, and not kept if the device runs out of memory.
        """
        key = (make, *sizes)
        found = self._constants.get(key)
        if found is not None:
            return found
        values = make(*sizes)
        with self._lock, whole:
            made = self.upload(values, values.nbytes, values.shape, as_dtype(values.dtype))
            self.pool.keep(made.buffer)
            kept = sum(x.buffer.storage.size for x in self._constants.values())
            if kept + values.nbytes > CONSTANT_BYTES:
                self._constants.clear()
            self._constants[key] = made
        return made

    # --- inside

    def _begin(self) -> None:
        opened = native.Pass(self._raw.handle)
        self._handle = opened.handle
        self._current = None
        self._dispatches = 0
        self._bytes = 0
        self._pass = opened

    def _end(self, open_pass: native.Pass) -> Handle:
        """Close the pass of the batch and return its encoder."""
        encoder = open_pass.end()
        self._pass = None
        self._handle = None
        self.batch += 1
        self.flushes += 1
        if len(self._bind_groups) > MOST_BIND_GROUPS:
            self._drop_bind_groups()
        return encoder

    def _compile(self, program: Program, operands: int) -> Handle:
        check_operands(program.label, operands, self._raw.most_operands)
        layout = self._layout(operands)
        pipeline = self._pipelines[program] = self._raw.create_pipeline(
            program.source(), program.label, program.entry_point, layout.pipeline_layout
        )
        return pipeline

    def _layout(self, operands: int) -> native.BindLayout:
        layout = self._layouts.get(operands)
        if layout is None:
            layout = self._layouts[operands] = native.BindLayout(self._raw.device, operands)
        return layout

    def _bind(self, key: tuple[int, ...], operands: list[Storage]) -> Handle:
        layout = self._layout(len(operands))
        group = layout.bind(self._raw.handle, [(s.handle, s.size) for s in operands])
        self._bind_groups[key] = group
        return group

    def _before_trim(self) -> None:
        self._constants.clear()
        self.flush()
        self._drop_bind_groups()

    def _drop_bind_groups(self) -> None:
        """Forget the bind groups, which keep their buffers alive."""
        for group in self._bind_groups.values():
            native.release_bind_group(group)
        self._bind_groups.clear()
