"""The interface to wgpu that a device needs; `native` implements it fast, `portable` with any version of wgpu-py."""

# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Protocol

from wgpu import BufferUsage, GPUError, GPUOutOfMemoryError

from plugrad.extend import ArgumentValueError, DeviceLost

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from wgpu import GPUBuffer, GPUDevice

Handle = Any
"""An object of the library: it is opaque, and only compared and passed on."""

BufferRange = tuple[Handle, int, int]
"""A buffer, and an offset and a size in bytes."""

STORAGE_USAGE: Final = int(BufferUsage.STORAGE | BufferUsage.COPY_SRC | BufferUsage.COPY_DST)
"""The WebGPU usage flags of buffers that hold arrays."""
STAGING_USAGE: Final = int(BufferUsage.MAP_READ | BufferUsage.COPY_DST)
"""The WebGPU usage flags of buffers from which the host reads."""
UPLOAD_USAGE: Final = int(BufferUsage.MAP_WRITE | BufferUsage.COPY_SRC)
"""The WebGPU usage flags of buffers to which the host writes."""
COMPUTE_STAGE_FLAG: Final = 4
"""WebGPU's visibility flag of bindings for compute shaders."""


class BindingLayout(Protocol):
    """The layout of all programs with the same numbers of operands: inputs first, outputs last."""

    @property
    def pipeline_layout(self) -> Handle:
        """The pipeline layout for the creation of pipelines."""
        ...

    def bind(self, device: Handle, buffers: Sequence[BufferRange]) -> Handle:
        """Return a new bind group of buffers."""
        ...

    def can_bind(self, device: Handle, buffers: Sequence[BufferRange]) -> bool:
        """Return whether no buffer has been destroyed; submitting a destroyed one would abort the process."""
        ...


class OpenPass(Protocol):
    """One command encoder with one open compute pass."""

    @property
    def handle(self) -> Handle:
        """The driver's handle of the pass."""
        ...

    def end(self) -> Handle:
        """End the pass and return its encoder, which can still record copies."""
        ...


class RawDevice(Protocol):
    """One opened device: buffers, pipelines, submissions and transfers."""

    device: GPUDevice
    """The wgpu-py device."""
    handle: Handle
    """The driver's handle of the device."""
    has_subgroups: bool
    """Whether shaders can use subgroup operations."""
    loads_64_bit_words: bool
    """Whether shaders can load integers of 64 bits."""
    has_doubles: bool
    """Whether shaders can compute with floats of 64 bits."""
    max_operands: int
    """The largest number of buffers that a program can bind."""
    max_shared_bytes: int
    """The largest number of bytes that the invocations of a workgroup can share."""

    def create_buffer(self, nbytes: int) -> Handle:
        """Return a new buffer, or None if memory is exhausted."""
        ...

    def handle_of(self, buffer: GPUBuffer) -> Handle:
        """Return the native handle of a wgpu-py buffer."""
        ...

    def lend(self, handle: Handle, nbytes: int, array: object) -> GPUBuffer:
        """Return a wgpu-py buffer for other code, which keeps `array` alive and refuses to be destroyed."""
        ...

    def compile_pipeline(self, code: str, label: str, entry_point: str, layout: Handle) -> Handle:
        """Return a program's compute pipeline; ArgumentValueError carries the compiler's message."""
        ...

    def submit(self, encoder: Handle) -> None:
        """Submit an encoder; an invalid batch raises instead of aborting the process."""
        ...

    def write(self, handle: Handle, data: object, nbytes: int) -> None:
        """Copy host memory to a buffer, ahead of all work that is not yet submitted."""
        ...

    def acquire_staging(self, nbytes: int) -> Any:
        """Return host memory for a transfer, or None if memory is exhausted."""
        ...

    def recycle_staging(self, staging: Any) -> None:
        """Return memory from `acquire_staging` for reuse."""
        ...

    def submit_readback(
        self, encoder: Handle, staging: Any, parts: Sequence[BufferRange], dispatch_count: int
    ) -> None:
        """Submit an encoder of a number of dispatches, and copies of parts of buffers to host memory.

        They arrive later. Without parts, the staging arrives when all work is done.
        """
        ...

    def submit_copy(self, encoder: Handle, source: BufferRange, target: BufferRange) -> None:
        """Submit an encoder, if given, and a copy between equally long parts of buffers."""
        ...

    def wait_for(self, staging: Any, lock: AbstractContextManager[object]) -> bool:
        """Wait for the values of a staging, with `lock` released while asleep; return whether they have arrived."""
        ...

    def release_staging(self) -> None:
        """Release transfer memory that is not in use."""
        ...


class Driver(Protocol):
    """The interface of the functions that record dispatches."""

    NULL: Any
    """The null pointer of the driver."""
    set_pipeline: Callable[..., None]
    set_bind_group: Callable[..., None]
    set_immediates: Callable[..., None]
    dispatch_workgroups: Callable[..., None]
    release_bind_group: Callable[..., None]
    release_buffer: Callable[..., None]
    release_encoder: Callable[..., None]
    release_pipeline: Callable[..., None]

    @property
    def BindGroupLayout(self) -> Callable[[GPUDevice, int, int, bool], BindingLayout]:  # noqa: N802 - a class
        """The driver's class of bind group layouts."""
        ...

    @property
    def ComputePass(self) -> Callable[[Handle], OpenPass]:  # noqa: N802 - a class
        """The driver's class of compute passes."""
        ...


def bind_group_layout_entries(
    operand_count: int, output_count: int, has_parameter_table: bool
) -> list[dict[str, Any]]:
    """Return the layout entries of storage buffers; the last one may hold a shader's parameters."""
    kinds = ["read-only-storage"] * operand_count
    end = operand_count - has_parameter_table
    kinds[end - output_count : end] = ["storage"] * output_count
    return [
        {"binding": i, "visibility": COMPUTE_STAGE_FLAG, "buffer": {"type": kind}}
        for i, kind in enumerate(kinds)
    ]


def is_out_of_memory(failure: GPUError) -> bool:
    """Return whether an error means exhausted memory, which some drivers report as a validation error."""
    return isinstance(failure, GPUOutOfMemoryError) or "Not enough memory" in str(failure)


def shader_compile_error(label: str, failure: GPUError) -> ArgumentValueError:
    """Return the error for a shader that does not compile."""
    # It begins with the name of the library's function that was called.
    told = re.sub(r"^.*?\n *In wgpu[^\n]*\n", "", str(failure), flags=re.DOTALL).strip()
    return ArgumentValueError(f"webgpu: the shader {label!r} does not compile: {told}")


def call_translating_errors(
    function: Callable[..., Handle], *args: object, **kwargs: object
) -> Handle:
    """Call a function of wgpu, translating its errors.

    Raises:
        DeviceLost: it does not work any more.
        GPUError: anything else is wrong.
    """
    try:
        return function(*args, **kwargs)
    except GPUError as failure:
        if "is lost" in str(failure):
            raise device_lost_error("the device is lost") from failure
        raise


def device_lost_error(reason: str) -> DeviceLost:
    """Return the error for a device that does not work any more."""
    return DeviceLost(
        f"webgpu: {reason}, perhaps because its driver was reset; open it again, as in plugrad.use('webgpu'), and "
        "compute the values again"
    )
