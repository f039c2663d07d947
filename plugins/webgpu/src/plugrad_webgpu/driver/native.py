"""The raw wgpu-native calls of the hot path, and the few cold ones that must not abort the process.

wgpu-py checks and converts every argument, which takes 5 to 20 times as long as the call itself. The
calls made once per kernel go straight to the C library here. Everything made once per program stays
in wgpu-py. `lib` calls report errors late, when the command encoder is finished; `libf` calls raise
at once.
"""

# `listing.SUPPORTED_WGPU_VERSION` is the version of wgpu-py whose private parts are used here.
# pyright: reportPrivateUsage=false, reportMissingTypeStubs=false, reportUnknownMemberType=false

from __future__ import annotations

import os
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any

from wgpu import GPUError
from wgpu.backends import wgpu_native
from wgpu.backends.wgpu_native import _api

from plugrad.extend import ArgumentValueError
from plugrad_webgpu.driver import exits
from plugrad_webgpu.driver.interface import (
    STAGING_USAGE,
    STORAGE_USAGE,
    UPLOAD_USAGE,
    bind_group_layout_entries,
    call_translating_errors,
    device_lost_error,
    is_out_of_memory,
    shader_compile_error,
)
from plugrad_webgpu.driver.interrupts import uninterruptible
from plugrad_webgpu.driver.limits import MAX_IMMEDIATE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType

    from wgpu import GPUBuffer, GPUDevice

    from plugrad_webgpu.driver.interface import BufferRange, Handle

# cffi makes these from a C header at run time, so no type checker knows their members.
ffi: Any = wgpu_native.ffi
"""The cffi interface of wgpu-native."""
lib: Any = wgpu_native.lib
"""The C functions of wgpu-native."""
libf: Any = _api.libf
"""The C functions of wgpu-native, called through wgpu-py, which raises their errors."""

NULL: Any = ffi.NULL
"""The null pointer of cffi."""
MIN_STAGING_BYTES = 1 << 16
"""The least size of host memory for a transfer."""
MAX_SPIN_SECONDS = 1e-4
"""How long a thread waits without sleeping: a sleep takes at least half of this."""
MAX_SLEEP_SECONDS = 1e-3
"""How long a waiting thread sleeps at most before it asks again."""
UPLOAD_STAGING_BYTES = 1 << 22
"""The size of mapped host memory for one upload."""
STAGED_UPLOAD_MIN_BYTES = 1 << 20
"""The least size of uploads through mapped memory: the library copies less in less time."""
MAX_UPLOAD_STAGINGS = 4
"""The largest number of pieces of mapped host memory for uploads."""
_MAP_PENDING_STATUS = 0
"""The status of memory whose mapping has not ended."""

# The threads of a software device may wait for the processor of the thread that waits for them.
_yield_thread: Callable[[], None] = getattr(
    os, "sched_yield", lambda: None
)  # Windows does not have it
"""The function that gives the processor to another thread."""

set_pipeline: Any = lib.wgpuComputePassEncoderSetPipeline
set_bind_group: Any = lib.wgpuComputePassEncoderSetBindGroup
set_immediates: Any = lib.wgpuComputePassEncoderSetImmediates
dispatch_workgroups: Any = lib.wgpuComputePassEncoderDispatchWorkgroups
release_bind_group: Any = lib.wgpuBindGroupRelease
release_buffer: Any = lib.wgpuBufferRelease
release_encoder: Any = lib.wgpuCommandEncoderRelease
release_pipeline: Any = lib.wgpuComputePipelineRelease


class BindGroupLayout:
    """The layout of all programs with the same numbers of operands: inputs first, outputs last."""

    __slots__ = ("_descriptor", "_entries", "_keep_alive", "pipeline_layout")

    def __init__(self, device: GPUDevice, operands: int, outputs: int, has_table: bool) -> None:
        """Create the layout; `driver.layout_entries` explains the arguments."""
        entries = bind_group_layout_entries(operands, outputs, has_table)
        group_layout = call_translating_errors(device.create_bind_group_layout, entries=entries)
        pipeline_layout = device.create_pipeline_layout(
            bind_group_layouts=[group_layout], immediate_size=MAX_IMMEDIATE_BYTES
        )
        self.pipeline_layout: Handle = pipeline_layout._internal
        self._entries = ffi.new("WGPUBindGroupEntry[]", operands)
        self._descriptor = ffi.new("WGPUBindGroupDescriptor *")
        self._descriptor.layout = group_layout._internal
        self._descriptor.entryCount = operands
        self._descriptor.entries = self._entries
        self._keep_alive = (group_layout, pipeline_layout)
        for i in range(operands):
            self._entries[i].binding = i

    def bind(self, device: Handle, buffers: Sequence[BufferRange]) -> Handle:
        """Return a new bind group of buffers, each given as a handle, an offset and a size."""
        self._fill(buffers)
        return lib.wgpuDeviceCreateBindGroup(device, self._descriptor)

    def can_bind(self, device: Handle, buffers: Sequence[BufferRange]) -> bool:
        """Return whether no buffer has been destroyed; submitting a destroyed one would abort the process."""
        self._fill(buffers)
        try:
            release_bind_group(libf.wgpuDeviceCreateBindGroup(device, self._descriptor))
        except GPUError:
            return False
        return True

    def _fill(self, buffers: Sequence[BufferRange]) -> None:
        """Write buffers to the entries of the bind group's C descriptor."""
        for entry, (handle, offset, size) in zip(self._entries, buffers, strict=True):
            entry.buffer = handle
            entry.offset = offset
            entry.size = size  # never 0: an explicit size of 0 aborts the process


class SharedBuffer(_api.GPUBuffer):
    """A tensor's buffer that other users of wgpu may use but not destroy."""

    def __init__(self, device: GPUDevice, handle: Handle, size: int, array: object) -> None:
        """Share a buffer, and keep its array."""
        lib.wgpuBufferAddRef(handle)
        super().__init__("plugrad", handle, device, size, STORAGE_USAGE, "unmapped")
        self._array = array

    def destroy(self) -> None:
        """Refuse, because tensors use the buffer.

        Raises:
            ArgumentValueError: always.
        """
        raise ArgumentValueError(
            "the buffer of a tensor cannot be destroyed; drop all references to it instead"
        )


class ComputePass:
    """One command encoder with one open compute pass."""

    __slots__ = ("encoder", "handle")

    def __init__(self, device: Handle) -> None:
        """Open the pass."""
        self.encoder: Handle = lib.wgpuDeviceCreateCommandEncoder(device, _ENCODER_DESCRIPTOR)
        self.handle: Handle = lib.wgpuCommandEncoderBeginComputePass(self.encoder, _PASS_DESCRIPTOR)

    def end(self) -> Handle:
        """End the pass and return its encoder, which can still record copies."""
        lib.wgpuComputePassEncoderEnd(self.handle)
        lib.wgpuComputePassEncoderRelease(self.handle)
        return self.encoder


class NativeStaging:
    """Host-visible memory for transfers, and its state: mapped, or in use by the device."""

    __slots__ = (
        "_callback",
        "_info",
        "_mode",
        "dispatches",
        "failure",
        "handle",
        "is_mapped",
        "size",
        "status",
    )

    def __init__(self, handle: Handle, size: int, mode: int = lib.WGPUMapMode_Read) -> None:
        self.handle: Handle = handle
        self.size: int = size
        self.is_mapped: bool = False
        """Whether the device may not use it: the host uses it, or waits for it."""
        self.dispatches: int = 0
        """How many dispatches were submitted with the transfer."""
        self._mode = mode
        self.status: int = _MAP_PENDING_STATUS
        self.failure: BaseException | None = None
        signature = "void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)"
        self._callback = ffi.callback(
            signature, self._on_mapped, onerror=self._keep_handler_exception
        )
        self._info = ffi.new("WGPUBufferMapCallbackInfo *")
        self._info.mode = lib.WGPUCallbackMode_AllowSpontaneous
        self._info.callback = self._callback

    def map(self, nbytes: int) -> None:
        """Start to map the first `nbytes` bytes after the submitted work has used them."""
        self.status, self.failure = _MAP_PENDING_STATUS, None
        self.is_mapped = True
        _stagings_awaiting_callback.add(self)
        lib.wgpuBufferMapAsync(self.handle, self._mode, 0, nbytes, self._info[0])

    def has_arrived(self) -> bool:
        """Return whether the values have arrived.

        Raises:
            DeviceLost: they will not come.
        """
        failure, self.failure = self.failure, None
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # its traceback has this frame, and so the arrays of the callers
        if self.status == _MAP_PENDING_STATUS:
            return False
        if self.status != lib.WGPUMapAsyncStatus_Success:
            raise device_lost_error(
                f"the device does not return its values (map status {self.status})"
            )
        return True

    def values(self, nbytes: int) -> Any:
        """Return the memory of the first `nbytes` bytes, which have arrived."""
        return ffi.buffer(lib.wgpuBufferGetConstMappedRange(self.handle, 0, nbytes), nbytes)

    def fill(self, data: Any, nbytes: int) -> None:
        """Copy `nbytes` bytes to the mapped memory, and unmap it for the device."""
        ffi.memmove(lib.wgpuBufferGetMappedRange(self.handle, 0, nbytes), data, nbytes)
        self.unmap()

    def unmap(self) -> None:
        """Unmap the memory; submitting work that uses mapped memory would abort the process."""
        if self.is_mapped:
            lib.wgpuBufferUnmap(self.handle)
            self.is_mapped = False

    def _on_mapped(self, status: int, _message: object, _first: object, _second: object) -> None:
        """Store the status of the mapping, as the library's callback."""
        _stagings_awaiting_callback.discard(self)
        self.status = int(status)

    def _keep_handler_exception(
        self, _kind: object, failure: BaseException, trace: TracebackType | None
    ) -> None:
        """Keep an exception that a signal handler raised in the callback, where it would be lost."""
        self.failure = failure.with_traceback(trace)
        self.status = lib.WGPUMapAsyncStatus_Error
        _stagings_awaiting_callback.discard(self)


class NativeDevice:
    """An opened wgpu device, called directly through wgpu-native's C functions."""

    def __init__(self, device: GPUDevice) -> None:
        """Take the handles out of a wgpu-py device and keep it alive."""
        self.device = device
        self.has_subgroups: bool = "subgroup" in device.features
        self.loads_64_bit_words: bool = "shader-int64" in device.features
        self.has_doubles: bool = "shader-f64" in device.features
        self.max_operands: int = int(device.limits["max-storage-buffers-per-shader-stage"])
        self.max_shared_bytes: int = int(device.limits["max-compute-workgroup-storage-size"])
        self.handle: Handle = device._internal
        self.queue: Handle = device.queue._internal
        self._buffer_descriptor = ffi.new("WGPUBufferDescriptor *")
        self._submission = ffi.new("WGPUCommandBuffer[1]")
        self._idle: list[NativeStaging] = []
        self._late: list[NativeStaging] = []
        self._uploads: list[NativeStaging] = []
        self._wait_seconds: dict[int, float] = {}
        """What the last wait took, by the number of dispatches in the batch."""

    def create_buffer(self, nbytes: int, usage: int = STORAGE_USAGE) -> Handle:
        """Return a new buffer, or None if memory is exhausted."""
        self._buffer_descriptor.size = nbytes
        self._buffer_descriptor.usage = usage
        try:
            return call_translating_errors(
                libf.wgpuDeviceCreateBuffer, self.handle, self._buffer_descriptor
            )
        except GPUError as failure:
            if is_out_of_memory(failure):
                return None
            raise

    def handle_of(self, buffer: GPUBuffer) -> Handle:
        """Return the native handle of a wgpu-py buffer, which its API does not expose."""
        return buffer._internal

    def lend(self, handle: Handle, nbytes: int, array: object) -> GPUBuffer:
        """Return a wgpu-py buffer for other code, which keeps `array` alive and refuses to be destroyed."""
        return SharedBuffer(self.device, handle, nbytes, array)

    def compile_pipeline(self, code: str, label: str, entry_point: str, layout: Handle) -> Handle:
        """Return the compute pipeline of a program with untrusted source.

        Raises:
            ArgumentValueError: the shader does not compile; the message is the compiler's.
        """
        try:
            return self.create_pipeline(code, label, entry_point, layout)
        except GPUError as failure:
            raise shader_compile_error(label, failure) from None

    def create_pipeline(self, code: str, label: str, entry_point: str, layout: Handle) -> Handle:
        """Compile WGSL to a compute pipeline; for an error in the shader, raise with the compiler's message."""
        source = ffi.new("WGPUShaderSourceWGSL *")
        source.chain.sType = lib.WGPUSType_ShaderSourceWGSL
        text = _fill_string_view(source.code, code)
        module_descriptor = ffi.new("WGPUShaderModuleDescriptor *")
        module_descriptor.nextInChain = ffi.cast("WGPUChainedStruct *", source)
        label_text = _fill_string_view(module_descriptor.label, label)
        # Keep the bounds checks. Omit the counter that the library adds to every loop: it keeps
        # drivers from unrolling, and every loop has a bound that the host knows.
        create_module = libf.wgpuDeviceCreateShaderModuleTrusted
        checks = lib.WGPUShaderRuntimeChecks_BoundsChecks
        module = call_translating_errors(create_module, self.handle, module_descriptor, checks)
        descriptor = ffi.new("WGPUComputePipelineDescriptor *")
        descriptor.layout = layout
        descriptor.compute.module = module
        entry_text = _fill_string_view(descriptor.compute.entryPoint, entry_point)
        try:
            return call_translating_errors(
                libf.wgpuDeviceCreateComputePipeline, self.handle, descriptor
            )
        finally:
            lib.wgpuShaderModuleRelease(module)
            del text, label_text, entry_text  # the C structures only borrow these

    def submit(self, encoder: Handle) -> None:
        """Submit an encoder; an invalid batch raises instead of aborting the process.

        To finish it also checks the device. A lost one would abort the process a moment later, so nothing that takes
        time comes between the two.
        """
        exits.pause_thread_if_exiting()
        try:
            commands = call_translating_errors(
                libf.wgpuCommandEncoderFinish, encoder, _COMMAND_BUFFER_DESCRIPTOR
            )
            self._submission[0] = commands
            lib.wgpuQueueSubmit(self.queue, 1, self._submission)
        finally:
            release_encoder(encoder)
        lib.wgpuCommandBufferRelease(commands)

    def write(self, handle: Handle, data: object, nbytes: int) -> None:
        """Copy host memory to a buffer, ahead of all work that is not yet submitted.

        The library makes new memory for each copy, and keeps it until work is submitted. The system fills
        it with zeros first, which takes longer than to copy. So large copies go through memory that stays.
        """
        memory, start = ffi.from_buffer(data), 0
        while start < nbytes:
            part = min(nbytes - start, UPLOAD_STAGING_BYTES)
            staging = self._upload_staging() if nbytes >= STAGED_UPLOAD_MIN_BYTES else None
            if staging is None:
                part = nbytes - start
                arguments = self.queue, handle, start, memory + start, part
                call_translating_errors(libf.wgpuQueueWriteBuffer, *arguments)
            else:
                staging.fill(memory + start, part)
                self.submit_copy(None, (staging.handle, 0, part), (handle, start, part))
            start += part

    def _upload_staging(self) -> NativeStaging | None:
        """Return mapped memory for an upload, or None if the device still reads all of it."""
        exits.pause_thread_if_exiting()
        lib.wgpuDevicePoll(self.handle, False, NULL)
        for staging in self._uploads:
            if not staging.is_mapped:
                staging.map(UPLOAD_STAGING_BYTES)
                lib.wgpuDevicePoll(self.handle, False, NULL)
            if staging.status == lib.WGPUMapAsyncStatus_Success:
                return staging
        if len(self._uploads) == MAX_UPLOAD_STAGINGS:
            return None
        handle = self.create_buffer(UPLOAD_STAGING_BYTES, UPLOAD_USAGE)
        if handle is None:
            return None
        self._uploads.append(NativeStaging(handle, UPLOAD_STAGING_BYTES, lib.WGPUMapMode_Write))
        return self._upload_staging()

    def acquire_staging(self, nbytes: int) -> NativeStaging | None:
        """Return host memory for a transfer, or None if memory is exhausted."""
        self._reclaim_finished_stagings()
        idle = self._idle
        for i in reversed(range(len(idle))):
            if idle[i].size >= nbytes:
                return idle.pop(i)
        if idle:
            release_buffer(idle.pop().handle)
        room = max(1 << (nbytes - 1).bit_length(), MIN_STAGING_BYTES)
        handle = self.create_buffer(room, STAGING_USAGE)
        return None if handle is None else NativeStaging(handle, room)

    def recycle_staging(self, staging: NativeStaging) -> None:
        """Keep transfer memory for reuse unless values are still on their way."""
        if staging.is_mapped and staging.status == _MAP_PENDING_STATUS:
            # The library confuses a mapping that is cancelled with the next one of the same memory:
            # that reports the values too early or never. So nobody uses the memory until they arrive.
            self._late.append(staging)
        else:
            staging.unmap()
            self._idle.append(staging)

    def _reclaim_finished_stagings(self) -> None:
        """Keep stagings for reuse whose transfers have ended meanwhile."""
        late, self._late = self._late, []
        for staging in late:
            self.recycle_staging(staging)

    def release_staging(self) -> None:
        """Release the memory for transfers that is not in use."""
        self._reclaim_finished_stagings()
        idle, self._idle = self._idle, []
        uploads, self._uploads = self._uploads, []
        for staging in (*idle, *uploads):
            staging.unmap()
            release_buffer(staging.handle)

    def submit_readback(
        self,
        encoder: Handle | None,
        staging: NativeStaging,
        parts: Sequence[BufferRange],
        dispatch_count: int,
    ) -> None:
        """Submit an encoder and copies of parts of buffers to host memory, where they arrive later."""
        staging.dispatches = dispatch_count
        encoder = encoder or self._create_encoder()
        copy, end = lib.wgpuCommandEncoderCopyBufferToBuffer, 0
        for handle, start, size in parts:
            copy(encoder, handle, start, staging.handle, end, size)
            end += size
        if not parts:  # the mapping waits for whatever uses the memory
            end = 4
            lib.wgpuCommandEncoderClearBuffer(encoder, staging.handle, 0, end)
        self.submit(encoder)
        staging.map(end)

    def submit_copy(self, encoder: Handle | None, source: BufferRange, target: BufferRange) -> None:
        """Submit an encoder and a copy between buffers."""
        encoder = encoder or self._create_encoder()
        handle, start, size = source
        copy = lib.wgpuCommandEncoderCopyBufferToBuffer
        copy(encoder, handle, start, target[0], target[1], size)
        self.submit(encoder)

    def _create_encoder(self) -> Handle:
        """Return a new command encoder."""
        return lib.wgpuDeviceCreateCommandEncoder(self.handle, _ENCODER_DESCRIPTOR)

    def wait_for(self, staging: NativeStaging, lock: AbstractContextManager[object]) -> bool:
        """Wait for the values of a staging, with `lock` released while asleep; return whether they have arrived.

        The lock is held only while the library may call back. A thread that wakes up finds its caches cold, so it
        sleeps through the first half of what the last wait for as many dispatches took.
        """
        started = perf_counter()
        half = self._wait_seconds.get(staging.dispatches, 0.0) / 2
        while not uninterruptible.has_deferred_signal:
            with lock:
                exits.pause_thread_if_exiting()
                lib.wgpuDevicePoll(self.handle, False, NULL)
            waited = perf_counter() - started
            if staging.has_arrived():
                self._wait_seconds[staging.dispatches] = waited
                return True
            if MAX_SPIN_SECONDS < half > waited:
                sleep(min(half - waited, MAX_SLEEP_SECONDS))
            elif waited > MAX_SPIN_SECONDS:
                sleep(min(waited / 16, MAX_SLEEP_SECONDS))
            else:
                _yield_thread()
        return staging.has_arrived()


def _fill_string_view(view: Any, text: str) -> Any:
    """Point a WGPUStringView at a text; the returned memory must outlive the call."""
    data = text.encode()
    memory = ffi.new("char[]", data)
    view.data = memory
    view.length = len(data)
    return memory


_ENCODER_DESCRIPTOR = ffi.new("WGPUCommandEncoderDescriptor *")
"""The C struct with the options of command encoders."""
_PASS_DESCRIPTOR = ffi.new("WGPUComputePassDescriptor *")
"""The C struct with the options of compute passes."""
_COMMAND_BUFFER_DESCRIPTOR = ffi.new("WGPUCommandBufferDescriptor *")
"""The C struct with the options of command buffers."""
_stagings_awaiting_callback: set[NativeStaging] = set()
"""The stagings that the library will call back, which must exist until then."""
