"""Buffers and devices that plugrad shares with other users of wgpu, such as programs that draw."""

# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.extend import (
    ArgumentError,
    ArgumentValueError,
    BackendUnavailable,
    UnsupportedDtype,
    as_dtype,
    wrap_array,
)
from plugrad_webgpu.entry import WebGpuBackend, opened_backends
from plugrad_webgpu.memory.buffers import Buffer, BufferReference, ExternalBuffer, GpuArray
from plugrad_webgpu.shaders.elements import (
    SHADER_DTYPES,
    WORD_DTYPES_BY_NARROW_DTYPE,
    require_dtype,
    words_per_element,
)
from plugrad_webgpu.shaders.layout import array_nbytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wgpu import GPUAdapter, GPUBuffer, GPUDevice

    from plugrad.extend import DType, Tensor

BUFFER_ALIGNMENT_BYTES = 16  # kernels read and write vectors of four words
"""The number of bytes of which the size of a shared buffer is a multiple."""


def requirements(adapter: GPUAdapter) -> dict[str, Any]:
    """Return the features and limits that plugrad requires, as arguments for `request_device_sync`.

    They are ``required_features`` and ``required_limits``; an app adds its own to them.
    """
    from plugrad_webgpu.device.adapters import required_features  # it imports wgpu

    return required_features(adapter)


def use_device(device: GPUDevice | None) -> None:
    """Make ``"webgpu"`` compute on a device opened by the program; None returns to plugrad's own device.

    It is also called ``"webgpu:shared"``. The device must have what `requirements` says.

    Raises:
        ArgumentError: it is not a `GPUDevice`.
        ArgumentValueError: it lacks a feature or a limit.
        BackendUnavailable: the backend is open already.
    """
    from plugrad_webgpu.device.adapters import check_shared_device, shared_device

    if device is not None:
        check_shared_device(device)
    if any(backend.is_open for backend in opened_backends):
        raise BackendUnavailable(
            "use_device: webgpu is open already; call this before the backend is first used, or close it with "
            "plugrad.close_backend(x.backend)"
        )
    shared_device[:] = [] if device is None else [device]


def from_buffer(buffer: GPUBuffer, shape: Sequence[int], dtype: DType | str = "float32") -> Tensor:
    """Return a tensor on a GPU buffer that the caller has made, without a copy.

    The tensor keeps the buffer. It has what the buffer holds when work is submitted: what the program
    writes later shows in the tensor, and in what is computed from it afterwards.

    Args:
        buffer: a buffer of the device on which the backend computes, with the usages STORAGE and
            COPY_SRC. Its size is a multiple of 16 bytes.
        shape: the shape of the tensor; the elements are dense, in row-major order.
        dtype: bools are ``u32`` in the buffer, complex numbers pairs of ``f32``, and integers of 64 bits
            pairs of ``u32``, the lower one first.

    Raises:
        ArgumentError: it is not a `GPUBuffer`.
        ArgumentValueError: the buffer is another device's, destroyed, mapped, too small, or lacks a usage.
        UnsupportedDtype: the device does not have the dtype, or not in words of 32 bits.
    """
    from wgpu import BufferUsage, GPUBuffer

    if not isinstance(buffer, GPUBuffer):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
        raise ArgumentError(f"from_buffer: buffer={buffer!r} must be a wgpu.GPUBuffer")
    backend = _backend_with_buffer(buffer)
    dtype, sizes = as_dtype(dtype), tuple(map(int, shape))
    require_dtype(dtype, SHADER_DTYPES)
    if dtype in WORD_DTYPES_BY_NARROW_DTYPE:
        raise UnsupportedDtype(
            f"from_buffer: elements of {dtype} are kept as {WORD_DTYPES_BY_NARROW_DTYPE[dtype]} on the device; "
            "give that dtype, and cast "
            "the tensor with astype"
        )
    nbytes = array_nbytes(sizes, words_per_element(dtype))
    least = max(-(-nbytes // BUFFER_ALIGNMENT_BYTES), 1) * BUFFER_ALIGNMENT_BYTES
    if buffer.size < least or buffer.size % BUFFER_ALIGNMENT_BYTES or min(sizes, default=0) < 0:
        raise ArgumentValueError(
            f"from_buffer: a buffer of {buffer.size} bytes cannot hold a tensor of shape {sizes} and dtype {dtype}; "
            f"its size must be a multiple of {BUFFER_ALIGNMENT_BYTES} and at least {least}"
        )
    usage, needed = int(buffer.usage), int(BufferUsage.STORAGE | BufferUsage.COPY_SRC)
    if usage & needed != needed or usage & int(BufferUsage.MAP_READ | BufferUsage.MAP_WRITE):
        raise ArgumentValueError(
            "from_buffer: the buffer must have the usages STORAGE and COPY_SRC, and neither MAP_READ nor MAP_WRITE"
        )
    device = backend.active_device
    external = ExternalBuffer(device, buffer, device.handle_of(buffer))
    device.check_external_buffers([external])
    own = Buffer()
    own.device, own.storage = device, external
    own.ref = BufferReference(own)
    own.ref.storage = None  # it does not go to the pool
    return wrap_array(GpuArray(sizes, dtype, own), backend)


def to_buffer(tensor: Tensor) -> GPUBuffer:
    """Return the buffer of a tensor on webgpu, without a copy.

    The work that computes the values is submitted before, so commands that the program submits
    see them. The elements come first in the buffer, which may be larger. Other tensors may share it,
    so do not write to it. It keeps the memory as long as it lives, and cannot be destroyed.

    Raises:
        ArgumentError: it is not a tensor of numbers on webgpu.
    """
    array: Any = getattr(tensor, "array", None)
    if not isinstance(array, GpuArray):
        raise ArgumentError(
            f"to_buffer: tensor={tensor!r} must be a tensor of numbers on webgpu; move it there, as in "
            "x.to('webgpu')"
        )
    backend: Any = tensor.backend
    return backend.active_device.lend(array)


def _backend_with_buffer(buffer: GPUBuffer) -> WebGpuBackend:
    """Return the open backend whose device owns a buffer.

    Raises:
        ArgumentValueError: there is none.
    """
    for backend in list(opened_backends):
        if backend.is_open and backend.gpu_device is buffer._device:  # pyright: ignore[reportPrivateUsage] - it is not public
            return backend
    raise ArgumentValueError(
        "from_buffer: the buffer belongs to a device on which plugrad does not compute; create it on "
        "x.backend.gpu_device of a tensor x, or give its device to plugrad_webgpu.use_device before webgpu is used"
    )
