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
"""A buffer, an offset and a size."""

STORAGE_USAGE: Final = int(BufferUsage.STORAGE | BufferUsage.COPY_SRC | BufferUsage.COPY_DST)
STAGING_USAGE: Final = int(BufferUsage.MAP_READ | BufferUsage.COPY_DST)
UPLOAD_USAGE: Final = int(BufferUsage.MAP_WRITE | BufferUsage.COPY_SRC)
COMPUTE_STAGE: Final = 4


class Layout(Protocol):
    """The layout shared by all programs with the same numbers of operands: inputs first, outputs last."""

    @property
    def pipeline_layout(self) -> Handle:
        """What pipelines are made with."""
        ...

    def bind(self, device: Handle, buffers: Sequence[BufferRange]) -> Handle:
        """Return a new bind group of buffers."""
        ...

    def can_bind(self, device: Handle, buffers: Sequence[BufferRange]) -> bool:
        """Return whether none of the buffers has been destroyed: to submit such a one aborts the process."""
        ...


class OpenPass(Protocol):
    """One command encoder with one open compute pass."""

    @property
    def handle(self) -> Handle:
        """The pass."""
        ...

    def end(self) -> Handle:
        """Close the pass and return its encoder, which may still receive copies."""
        ...


class RawDevice(Protocol):
    """One opened device: buffers, pipelines, submissions and transfers."""

    device: GPUDevice
    handle: Handle
    has_subgroups: bool
    has_long_words: bool
    most_operands: int
    most_shared: int

    def create_buffer(self, size: int) -> Handle:
        """Return a new buffer, or None if the device has no memory left."""
        ...

    def handle_of(self, buffer: GPUBuffer) -> Handle:
        """Return the handle of a buffer of wgpu-py."""
        ...

    def lend(self, handle: Handle, size: int, array: object) -> GPUBuffer:
        """Return a buffer for other code that uses wgpu-py; it keeps `array` alive, and that code cannot destroy it."""
        ...

    def compile_pipeline(self, code: str, label: str, entry_point: str, layout: Handle) -> Handle:
        """Return the compute pipeline of a program; ArgumentValueError has the compiler's message."""
        ...

    def submit(self, encoder: Handle) -> None:
        """Finish an encoder and submit it; an invalid batch raises instead of aborting the process."""
        ...

    def write(self, handle: Handle, data: object, size: int) -> None:
        """Copy host memory to a buffer, ahead of all work that is not yet submitted."""
        ...

    def staging(self, size: int) -> Any:
        """Return memory of the host whose `values` transfers fill, or None if there is none."""
        ...

    def give_back(self, staging: Any) -> None:
        """Take back what `staging` returned."""
        ...

    def fetch(self, encoder: Handle, staging: Any, parts: Sequence[BufferRange]) -> None:
        """Submit what `encoder` holds and copies of parts of buffers, one after the other; they arrive later.

        Without parts, the staging arrives when all work is done.
        """
        ...

    def submit_copy(self, encoder: Handle, source: BufferRange, target: BufferRange) -> None:
        """Submit what `encoder` holds, if it is given, and a copy between buffers; both parts have one size."""
        ...

    def wait_for(self, staging: Any, lock: AbstractContextManager[object]) -> bool:
        """Return whether values have arrived, after waiting for them unless an interrupt comes first."""
        ...

    def release_staging(self) -> None:
        """Give the memory for transfers back, except where values are on their way."""
        ...


class Driver(Protocol):
    """The calls that record dispatches."""

    NULL: Any
    set_pipeline: Callable[..., None]
    set_bind_group: Callable[..., None]
    set_immediates: Callable[..., None]
    dispatch_workgroups: Callable[..., None]
    release_bind_group: Callable[..., None]
    release_buffer: Callable[..., None]
    release_encoder: Callable[..., None]
    release_pipeline: Callable[..., None]

    @property
    def BindLayout(self) -> Callable[[GPUDevice, int, int, bool], Layout]:  # noqa: N802 - a class
        """The class of layouts."""
        ...

    @property
    def Pass(self) -> Callable[[Handle], OpenPass]:  # noqa: N802 - a class
        """The class of passes."""
        ...


def layout_entries(operands: int, outputs: int, has_table: bool) -> list[dict[str, Any]]:
    """Return the entries of a layout of storage buffers, of which the last may have the parameters of a shader."""
    kinds = ["read-only-storage"] * operands
    kinds[operands - has_table - outputs : operands - has_table] = ["storage"] * outputs
    return [
        {"binding": i, "visibility": COMPUTE_STAGE, "buffer": {"type": kind}}
        for i, kind in enumerate(kinds)
    ]


def is_out_of_memory(failure: GPUError) -> bool:
    """Return whether an error says that the device has no memory, which some drivers call an error of validation."""
    return isinstance(failure, GPUOutOfMemoryError) or "Not enough memory" in str(failure)


def shader_error(label: str, failure: GPUError) -> ArgumentValueError:
    """Return the error for a shader that does not compile."""
    # It begins with the name of the library's function that was called.
    told = re.sub(r"^.*?\n *In wgpu[^\n]*\n", "", str(failure), flags=re.DOTALL).strip()
    return ArgumentValueError(f"webgpu: the shader {label!r} does not compile: {told}")


def translate_errors(call: Callable[..., Handle], *arguments: object, **named: object) -> Handle:
    """Call a function of wgpu, translating its errors.

    Raises:
        DeviceLost: it does not work any more.
        GPUError: anything else is wrong.
    """
    try:
        return call(*arguments, **named)
    except GPUError as failure:
        if "is lost" in str(failure):
            raise device_lost_error("the device is lost") from failure
        raise


def device_lost_error(what: str) -> DeviceLost:
    """Return the error for a device that does not work any more."""
    return DeviceLost(
        f"webgpu: {what}, perhaps because its driver was reset; open it again, as in plugrad.use('webgpu'), and "
        "compute the values again"
    )
