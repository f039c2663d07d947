"""The calls of `native` by wgpu-py alone, for versions of wgpu-py whose private parts are not known here.

They take 5 to 20 times as long, and Ctrl-C waits until the device has finished.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wgpu import GPUError, MapMode

from plugrad.extend import ArgumentValueError, is_interruption, suppress_failures
from plugrad_webgpu.driver import exits
from plugrad_webgpu.driver.interface import (
    STAGING_USAGE,
    STORAGE_USAGE,
    bind_group_layout_entries,
    call_translating_errors,
    device_lost_error,
    is_out_of_memory,
    shader_compile_error,
)
from plugrad_webgpu.driver.limits import MAX_IMMEDIATE_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from wgpu import GPUBuffer, GPUDevice

    from plugrad_webgpu.driver.interface import BufferRange, Handle

NULL: Any = None
"""The value that stands for a missing handle."""


def set_pipeline(pass_handle: Handle, pipeline: Handle) -> None:
    """Set the pipeline of the next dispatches of a pass."""
    call_translating_errors(pass_handle.set_pipeline, pipeline)


def set_bind_group(
    pass_handle: Handle, index: int, bind_group: Handle, _count: int, _offsets: None
) -> None:
    """Set the bind group, which holds the buffers of the next dispatches."""
    call_translating_errors(pass_handle.set_bind_group, index, bind_group)


def set_immediates(pass_handle: Handle, offset: int, data: bytes, nbytes: int) -> None:
    """Set the immediates, which hold the parameters of the next dispatches."""
    call_translating_errors(pass_handle.set_immediates, offset, data, data_size=nbytes)


def dispatch_workgroups(pass_handle: Handle, x: int, y: int, z: int) -> None:
    """Record a dispatch."""
    call_translating_errors(pass_handle.dispatch_workgroups, x, y, z)


def release_nothing(_handle: Handle) -> None:
    """Do nothing, because Python releases unreferenced objects."""


release_bind_group: Final = release_nothing
release_buffer: Final = release_nothing
release_encoder: Final = release_nothing
release_pipeline: Final = release_nothing


class BindGroupLayout:
    """The layout of all programs with the same numbers of operands: inputs first, outputs last."""

    __slots__ = ("_group_layout", "pipeline_layout")

    def __init__(self, device: GPUDevice, operands: int, outputs: int, has_table: bool) -> None:
        """Create the layout; `driver.layout_entries` explains the arguments."""
        entries = bind_group_layout_entries(operands, outputs, has_table)
        self._group_layout = call_translating_errors(
            device.create_bind_group_layout, entries=entries
        )
        self.pipeline_layout: Handle = device.create_pipeline_layout(
            bind_group_layouts=[self._group_layout], immediate_size=MAX_IMMEDIATE_BYTES
        )

    def bind(self, device: Handle, buffers: Sequence[BufferRange]) -> Handle:
        """Return a new bind group of buffers."""
        entries = [
            {"binding": i, "resource": {"buffer": buffer, "offset": offset, "size": size}}
            for i, (buffer, offset, size) in enumerate(buffers)
        ]
        return call_translating_errors(
            device.create_bind_group, layout=self._group_layout, entries=entries
        )

    def can_bind(self, device: Handle, buffers: Sequence[BufferRange]) -> bool:
        """Return whether no buffer has been destroyed."""
        try:
            self.bind(device, buffers)
        except GPUError:
            return False
        return True


class ComputePass:
    """One command encoder with one open compute pass."""

    __slots__ = ("encoder", "handle")

    def __init__(self, device: Handle) -> None:
        """Open the pass."""
        self.encoder: Handle = call_translating_errors(device.create_command_encoder)
        self.handle: Handle = call_translating_errors(self.encoder.begin_compute_pass)

    def end(self) -> Handle:
        """End the pass and return its encoder."""
        self.handle.end()
        return self.encoder


class PortableStaging:
    """Host memory for one transfer."""

    __slots__ = ("buffer", "promise")

    def __init__(self, buffer: Handle) -> None:
        self.buffer: Handle = buffer
        self.promise: Any = None

    def values(self, nbytes: int) -> Any:
        """Return the memory of the first `nbytes` bytes, which have arrived."""
        return self.buffer.read_mapped(0, _round_up_to_words(nbytes), copy=False)[:nbytes]


class PortableDevice:
    """An opened wgpu device, called through the documented API of wgpu-py."""

    def __init__(self, device: GPUDevice) -> None:
        """Use a device of wgpu-py."""
        self.device = device
        self.handle: Handle = device
        self.has_subgroups: bool = "subgroup" in device.features
        self.loads_64_bit_words: bool = "shader-int64" in device.features
        self.has_doubles: bool = "shader-f64" in device.features
        self.max_operands: int = int(device.limits["max-storage-buffers-per-shader-stage"])
        self.max_shared_bytes: int = int(device.limits["max-compute-workgroup-storage-size"])

    def create_buffer(self, nbytes: int, usage: int = STORAGE_USAGE) -> Handle:
        """Return a new buffer, or None if memory is exhausted."""
        try:
            return call_translating_errors(self.device.create_buffer, size=nbytes, usage=usage)
        except GPUError as failure:
            if is_out_of_memory(failure):
                return None
            raise

    def handle_of(self, buffer: GPUBuffer) -> Handle:
        """Return the buffer itself."""
        return buffer

    def lend(self, handle: Handle, nbytes: int, array: object) -> GPUBuffer:
        """Refuse, because nothing would keep the buffer from being destroyed.

        Raises:
            ArgumentValueError: always.
        """
        raise ArgumentValueError(
            "to_buffer: the buffers of tensors can be handed out with wgpu 0.32 only; install that version, or write "
            "x.numpy() to a buffer"
        )

    def compile_pipeline(self, code: str, label: str, entry_point: str, layout: Handle) -> Handle:
        """Return the compute pipeline of a program.

        Raises:
            ArgumentValueError: the shader does not compile; the message is the compiler's.
        """
        try:
            return self.create_pipeline(code, label, entry_point, layout)
        except GPUError as failure:
            raise shader_compile_error(label, failure) from None

    def create_pipeline(self, code: str, label: str, entry_point: str, layout: Handle) -> Handle:
        """Compile WGSL to a compute pipeline."""
        module = call_translating_errors(self.device.create_shader_module, label=label, code=code)
        compute = {"module": module, "entry_point": entry_point}
        return call_translating_errors(
            self.device.create_compute_pipeline, layout=layout, compute=compute
        )

    def submit(self, encoder: Handle) -> None:
        """Finish an encoder, which checks the device, and submit it at once: a lost device aborts the process."""
        exits.pause_thread_if_exiting()
        commands = call_translating_errors(encoder.finish)
        call_translating_errors(self.device.queue.submit, [commands])

    def write(self, handle: Handle, data: object, nbytes: int) -> None:
        """Copy host memory to a buffer, ahead of all work that is not yet submitted."""
        call_translating_errors(self.device.queue.write_buffer, handle, 0, data, 0, nbytes)

    def acquire_staging(self, nbytes: int) -> PortableStaging | None:
        """Return host memory for a transfer, or None if memory is exhausted."""
        buffer = self.create_buffer(_round_up_to_words(nbytes), STAGING_USAGE)
        return None if buffer is None else PortableStaging(buffer)

    def recycle_staging(self, staging: PortableStaging) -> None:
        """Release transfer memory unless values are still on their way."""
        if staging.promise is not None:
            with suppress_failures(RuntimeError):  # it is not mapped if the wait has failed
                staging.buffer.unmap()

    def submit_readback(
        self,
        encoder: Handle,
        staging: PortableStaging,
        parts: Sequence[BufferRange],
        dispatch_count: int,
    ) -> None:
        """Submit an encoder and copies of parts of buffers to host memory, where they arrive later."""
        encoder = encoder or call_translating_errors(self.device.create_command_encoder)
        end = 0
        for handle, start, size in parts:
            call_translating_errors(
                encoder.copy_buffer_to_buffer, handle, start, staging.buffer, end, size
            )
            end += size
        if not parts:
            end = _round_up_to_words(0)
            call_translating_errors(encoder.clear_buffer, staging.buffer, 0, end)
        self.submit(encoder)
        staging.promise = call_translating_errors(staging.buffer.map_async, MapMode.READ, 0, end)

    def submit_copy(self, encoder: Handle, source: BufferRange, target: BufferRange) -> None:
        """Submit an encoder and a copy between buffers."""
        encoder = encoder or call_translating_errors(self.device.create_command_encoder)
        handle, start, size = source
        call_translating_errors(
            encoder.copy_buffer_to_buffer, handle, start, target[0], target[1], size
        )
        self.submit(encoder)

    def release_staging(self) -> None:
        """Do nothing, because transfer memory is not reused."""

    def wait_for(self, staging: PortableStaging, lock: AbstractContextManager[object]) -> bool:
        """Return True after waiting for the values of a staging.

        Raises:
            DeviceLost: they will not come.
        """
        exits.pause_thread_if_exiting()
        try:
            staging.promise.sync_wait()
        except RuntimeError as failure:
            if is_interruption(failure):
                raise
            raise device_lost_error(
                f"the device does not return its values ({failure})"
            ) from failure
        return True


def _round_up_to_words(nbytes: int) -> int:
    """Return a size in bytes rounded up to whole words of 4 bytes, at least one."""
    return max(-(-nbytes // 4) * 4, 4)
