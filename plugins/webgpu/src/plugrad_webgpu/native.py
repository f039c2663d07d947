"""The raw wgpu-native calls of the hot path, and the few cold ones that must not abort the process.

wgpu-py checks and converts every argument, which takes 5 to 20 times as long as the call itself. The
calls made once per kernel go straight to the C library here. Everything made once per program stays
in wgpu-py. `lib` calls report errors late, when the command encoder is finished; `libf` calls raise
at once.
"""

# `wgpu==0.32.*` is pinned for the private parts of wgpu-py that are used here.
# pyright: reportPrivateUsage=false, reportMissingTypeStubs=false, reportUnknownMemberType=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wgpu import BufferUsage, GPUError, GPUOutOfMemoryError
from wgpu.backends import wgpu_native
from wgpu.backends.wgpu_native import _api

from plugrad.extend import BackendUnavailable
from plugrad_webgpu.limits import IMMEDIATE_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wgpu import GPUDevice

# cffi makes these from a C header at run time, so no type checker knows their members.
ffi: Any = wgpu_native.ffi
lib: Any = wgpu_native.lib
libf: Any = _api.libf

Handle = Any
"""A pointer of the native library: it is opaque, and only compared and passed on."""

NULL = ffi.NULL
STORAGE_USAGE = int(BufferUsage.STORAGE | BufferUsage.COPY_SRC | BufferUsage.COPY_DST)
STAGING_USAGE = int(BufferUsage.MAP_READ | BufferUsage.COPY_DST)
COMPUTE_STAGE = 4
NO_MEMORY = "Not enough memory"
_PENDING = 0

set_pipeline = lib.wgpuComputePassEncoderSetPipeline
set_bind_group = lib.wgpuComputePassEncoderSetBindGroup
set_immediates = lib.wgpuComputePassEncoderSetImmediates
dispatch_workgroups = lib.wgpuComputePassEncoderDispatchWorkgroups
release_bind_group = lib.wgpuBindGroupRelease
release_buffer = lib.wgpuBufferRelease


class BindLayout:
    """The layout shared by all programs with one number of operands: inputs first, the output last."""

    __slots__ = ("_descriptor", "_entries", "_keep_alive", "pipeline_layout")

    def __init__(self, device: GPUDevice, operands: int) -> None:
        """Create the layout of `operands` storage buffers and the parameters of a shader."""
        kinds = ["read-only-storage"] * (operands - 1) + ["storage"]
        group_layout = device.create_bind_group_layout(
            entries=[
                {"binding": i, "visibility": COMPUTE_STAGE, "buffer": {"type": kind}}
                for i, kind in enumerate(kinds)
            ]
        )
        pipeline_layout = device.create_pipeline_layout(
            bind_group_layouts=[group_layout], immediate_size=IMMEDIATE_BYTES
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

    def bind(self, device: Handle, buffers: Sequence[tuple[Handle, int]]) -> Handle:
        """Return a new bind group of whole buffers, given as pairs of a handle and a size."""
        for entry, (handle, size) in zip(self._entries, buffers, strict=True):
            entry.buffer = handle
            entry.size = size  # never 0: an explicit size of 0 aborts the process
        return lib.wgpuDeviceCreateBindGroup(device, self._descriptor)


class Pass:
    """One command encoder with one open compute pass."""

    __slots__ = ("encoder", "handle")

    def __init__(self, device: Handle) -> None:
        """Open the pass."""
        self.encoder: Handle = lib.wgpuDeviceCreateCommandEncoder(device, _ENCODER_DESCRIPTOR)
        self.handle: Handle = lib.wgpuCommandEncoderBeginComputePass(self.encoder, _PASS_DESCRIPTOR)

    def end(self) -> Handle:
        """Close the pass and return its encoder, which may still receive copies."""
        lib.wgpuComputePassEncoderEnd(self.handle)
        lib.wgpuComputePassEncoderRelease(self.handle)
        return self.encoder


class NativeDevice:
    """The raw side of one opened wgpu device."""

    def __init__(self, device: GPUDevice) -> None:
        """Take the handles out of a wgpu-py device and keep it alive."""
        self.device = device
        self.most_operands = int(device.limits["max-storage-buffers-per-shader-stage"])
        self.handle: Handle = device._internal
        self.queue: Handle = device.queue._internal
        self._buffer_descriptor = ffi.new("WGPUBufferDescriptor *")
        self._submission = ffi.new("WGPUCommandBuffer[1]")
        self._staging: Handle | None = None
        self._staging_size = 0
        self._map_status = _PENDING
        self._map_callback = ffi.callback(
            "void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)", self._on_mapped
        )
        self._map_info = ffi.new("WGPUBufferMapCallbackInfo *")
        self._map_info.mode = lib.WGPUCallbackMode_AllowSpontaneous
        self._map_info.callback = self._map_callback

    def _on_mapped(self, status: int, _message: object, _first: object, _second: object) -> None:
        self._map_status = int(status)

    def create_buffer(self, size: int, usage: int = STORAGE_USAGE) -> Handle:
        """Return a new buffer, or None if the device has no memory left."""
        self._buffer_descriptor.size = size
        self._buffer_descriptor.usage = usage
        try:
            return libf.wgpuDeviceCreateBuffer(self.handle, self._buffer_descriptor)
        except GPUError as failure:
            # Some drivers report a lack of memory as an error of validation.
            if isinstance(failure, GPUOutOfMemoryError) or NO_MEMORY in str(failure):
                return None
            raise

    def create_pipeline(self, code: str, label: str, entry_point: str, layout: Handle) -> Handle:
        """Compile WGSL to a compute pipeline; for an error in the shader, raise with the compiler's message."""
        source = ffi.new("WGPUShaderSourceWGSL *")
        source.chain.sType = lib.WGPUSType_ShaderSourceWGSL
        text = _fill_view(source.code, code)
        module_descriptor = ffi.new("WGPUShaderModuleDescriptor *")
        module_descriptor.nextInChain = ffi.cast("WGPUChainedStruct *", source)
        label_text = _fill_view(module_descriptor.label, label)
        # Keep the bounds checks. Omit the counter that the library adds to every loop: it keeps
        # drivers from unrolling, and every loop has a bound that the host knows.
        module = libf.wgpuDeviceCreateShaderModuleTrusted(
            self.handle, module_descriptor, lib.WGPUShaderRuntimeChecks_BoundsChecks
        )
        descriptor = ffi.new("WGPUComputePipelineDescriptor *")
        descriptor.layout = layout
        descriptor.compute.module = module
        entry_text = _fill_view(descriptor.compute.entryPoint, entry_point)
        try:
            return libf.wgpuDeviceCreateComputePipeline(self.handle, descriptor)
        finally:
            lib.wgpuShaderModuleRelease(module)
            del text, label_text, entry_text  # the C structures only borrow these

    def submit(self, encoder: Handle) -> None:
        """Finish an encoder and submit it; an invalid batch raises instead of aborting the process."""
        try:
            commands = libf.wgpuCommandEncoderFinish(encoder, _COMMANDS_DESCRIPTOR)
        finally:
            lib.wgpuCommandEncoderRelease(encoder)
        self._submission[0] = commands
        lib.wgpuQueueSubmit(self.queue, 1, self._submission)
        lib.wgpuCommandBufferRelease(commands)

    def write(self, handle: Handle, data: object, size: int) -> None:
        """Copy host memory to a buffer, ahead of all work that is not yet submitted."""
        libf.wgpuQueueWriteBuffer(self.queue, handle, 0, ffi.from_buffer(data), size)

    def make_room_to_read(self, size: int) -> bool:
        """Return whether there is memory to read `size` bytes, after allocating it if necessary."""
        if self._staging_size < size:
            if self._staging is not None:
                release_buffer(self._staging)
            self._staging_size = max(1 << (size - 1).bit_length(), 1 << 16)
            self._staging = self.create_buffer(self._staging_size, STAGING_USAGE)
            if self._staging is None:
                self._staging_size = 0
        return self._staging is not None

    def read(self, encoder: Handle | None, handle: Handle, out: object, size: int) -> None:
        """Submit what `encoder` holds, wait, and copy a buffer to the writable memory of `out`.

        `make_room_to_read` has returned True for this size.

        Raises:
            BackendUnavailable: the device does not answer.
        """
        if encoder is None:
            encoder = lib.wgpuDeviceCreateCommandEncoder(self.handle, _ENCODER_DESCRIPTOR)
        staging = self._staging
        lib.wgpuCommandEncoderCopyBufferToBuffer(encoder, handle, 0, staging, 0, size)
        self.submit(encoder)
        self._map_status = _PENDING
        lib.wgpuBufferMapAsync(staging, lib.WGPUMapMode_Read, 0, size, self._map_info[0])
        while self._map_status == _PENDING:
            lib.wgpuDevicePoll(self.handle, True, NULL)
        if self._map_status != lib.WGPUMapAsyncStatus_Success:
            raise BackendUnavailable(
                f"webgpu: the device does not return its values (map status {self._map_status}), perhaps because the "
                "driver was reset; close the backend with plugrad.close_backend and compute the values again"
            )
        mapped = lib.wgpuBufferGetConstMappedRange(staging, 0, size)
        ffi.memmove(ffi.from_buffer(out), mapped, size)
        lib.wgpuBufferUnmap(staging)

    def wait(self) -> None:
        """Wait until the device has done all submitted work."""
        lib.wgpuDevicePoll(self.handle, True, NULL)


def _fill_view(view: Any, text: str) -> Any:
    """Point a WGPUStringView at a text; the returned memory must outlive the call."""
    data = text.encode()
    memory = ffi.new("char[]", data)
    view.data = memory
    view.length = len(data)
    return memory


_ENCODER_DESCRIPTOR = ffi.new("WGPUCommandEncoderDescriptor *")
_PASS_DESCRIPTOR = ffi.new("WGPUComputePassDescriptor *")
_COMMANDS_DESCRIPTOR = ffi.new("WGPUCommandBufferDescriptor *")
