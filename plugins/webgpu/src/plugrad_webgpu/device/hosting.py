"""Small arrays that stay on the host until a kernel of the device needs them, and calls that the host computes.

To submit work and to wait for a value takes longer than thousands of additions. So what a program makes
of a few numbers is a `HostBuffer` buffer, which has values and no storage yet. An elementwise call whose inputs are
all hosted is computed by NumPy at once, if the kernel has a body on the host, and the result is hosted
again. Whoever asks for the storage of a hosted buffer gets one with the values. Both remain: arrays do not change.

A body gives what the shader gives, to the last bit. So there are bodies only for what is rounded once or not at all,
and nobody can tell from a value where it was computed. See docs/notes/0019-small-arrays-of-webgpu.md.
"""

from __future__ import annotations

from contextvars import Context
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from plugrad.extend import float32
from plugrad_webgpu.algorithms.expressions import elementwise
from plugrad_webgpu.driver.forks import RefusingLock
from plugrad_webgpu.driver.interrupts import uninterruptible
from plugrad_webgpu.driver.limits import foreign_buffer_error
from plugrad_webgpu.memory.buffers import CommandRecorder, GpuArray, HostBuffer
from plugrad_webgpu.memory.copying import fill_plan, value_words
from plugrad_webgpu.shaders.elements import COMPUTE_DTYPES_BY_DTYPE, as_parameter, stored_nbytes
from plugrad_webgpu.shaders.layout import size_class

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from plugrad.extend import DType, PlugradError
    from plugrad_webgpu.device.pending import FusionQueue
    from plugrad_webgpu.memory.buffers import Pool, Storage
    from plugrad_webgpu.shaders.chains import ElementwiseCall
    from plugrad_webgpu.shaders.layout import Shape
    from plugrad_webgpu.shaders.program import Plan


MAX_HOST_ARRAY_AXES: Final = 64
"""The largest number of axes of NumPy's arrays; views by which kernels move elements may have more."""


class HostingDevice(CommandRecorder, Protocol):
    """The interface of a device for arrays on the host: pending calls, dispatches, and copies to buffers."""

    @property
    def calls(self) -> FusionQueue:
        """The queue of pending elementwise calls."""
        ...

    def record(self, plan: Plan, operands: list[Storage]) -> None:
        """Add the dispatch of a plan to the batch."""
        ...

    def write(self, storage: Storage, data: object, nbytes: int) -> None:
        """Copy host memory to a buffer."""
        ...


class HostArrays:
    """The small arrays of a device that are kept on the host, and their computations."""

    def __init__(
        self, device: HostingDevice, pool: Pool, lock: AbstractContextManager[object]
    ) -> None:
        """Begin with nothing on the host."""
        self.most: int = 0
        """How many elements the largest array has that stays on the host; 0 keeps none there."""
        self._device = device
        self._pool = pool
        self._lock = lock

    def abandon(self, make_error: Callable[[], PlugradError]) -> None:
        """Make all further work raise the error that `make_error` returns."""
        self._lock = RefusingLock(make_error)

    def has_room(self, shape: Shape) -> bool:
        """Return whether an array of a shape is small enough to be kept on the host."""
        return len(shape) <= MAX_HOST_ARRAY_AXES and prod(shape) <= self.most > 0

    def wrap_values(self, values: NDArray[Any], shape: Shape, dtype: DType) -> GpuArray:
        """Return an array that owns the given flat values.

        Raises:
            OutOfMemory: the memory limit does not allow it. The array counts as if it were on the device.
        """
        size = size_class(stored_nbytes(shape, dtype))
        with self._lock:
            buffer = self._pool.reserve(self._device, size, HostBuffer)
        buffer.values = values
        buffer.dtype = dtype
        return GpuArray(shape, dtype, buffer)

    def full(self, shape: Shape, value: complex, dtype: DType) -> GpuArray:
        """Return an array filled with `value`, cast to a dtype."""
        made = _ERROR_IGNORING_CONTEXT.copy().run(
            np.full, prod(shape), as_parameter(value, dtype), dtype
        )
        return self.wrap_values(made, shape, dtype)

    def try_compute(
        self, prepared_call: ElementwiseCall, inputs: Sequence[GpuArray]
    ) -> GpuArray | None:
        """Return the result of an elementwise call, or None if the device must compute it.

        Raises:
            BackendUnavailable: an input belongs to another device.
            OutOfMemory: there is no room for the result.
        """
        body = prepared_call.host_function
        if body is None or prepared_call.element_count > self.most:
            return None
        operands: list[NDArray[Any]] = []
        for x in inputs:
            buffer = x.buffer
            if type(buffer) is not HostBuffer or buffer.dtype is not x.dtype:
                return None
            if buffer.device is not self._device:
                raise foreign_buffer_error()
            # In a row, arrays of one size lie as the result does, and a single element is repeated anyway.
            operands.append(
                buffer.values
                if prepared_call.broadcast_shape is None
                else buffer.values.reshape(x.shape)
            )
        # np.errstate would take three times as long as an addition.
        values = _ERROR_IGNORING_CONTEXT.copy().run(
            body, *operands, *prepared_call.attribute_values
        )
        if not self._keeps_subnormals and any(map(_has_subnormals, (*operands, values))):
            return None
        return self.wrap_values(
            values if prepared_call.broadcast_shape is None else values.reshape(-1),
            prepared_call.shape,
            prepared_call.dtype,
        )

    def read_values(self, values: NDArray[Any], shape: Shape) -> NDArray[Any]:
        """Return a copy of a host array's values that the caller may change."""
        with self._lock:  # which a forked child may not enter
            # Chains end where values are read, so that a loop makes the same chains in each round.
            self._device.calls.finish_own_thread()
            return values.reshape(shape).copy()

    def move_to_device(self, buffer: HostBuffer) -> None:
        """Copy a host buffer's values to a new storage on the device.

        Raises:
            OutOfMemory: the device does not allow it.
        """
        values = buffer.values
        with self._lock, uninterruptible:
            dtype = buffer.dtype
            if dtype is None:  # another thread was faster
                return
            if values.size == 1:
                # A fill is part of the batch, in order.
                plan = fill_plan((1,), value_words(values.item(), dtype), dtype)
                storage = self._pool.attach_storage(buffer.ref, plan.size)
                self._device.record(plan, [storage])
            else:
                words = (
                    values.astype(COMPUTE_DTYPES_BY_DTYPE[dtype])
                    if dtype in COMPUTE_DTYPES_BY_DTYPE
                    else values
                )
                size = size_class(words.nbytes)
                storage = self._pool.attach_storage(buffer.ref, size, oldest=True)
                self._device.write(storage, words, words.nbytes)
            buffer.storage = storage

    @cached_property
    def _keeps_subnormals(self) -> bool:
        """Whether the device computes with subnormal numbers (below 1.2e-38) instead of flushing them to 0.

        Adapters do not tell, so it is asked once for some sums, products and comparisons.
        """
        device = self._device
        a, b = _SUBNORMAL_TEST_INPUTS
        on_device = [device.upload(x, x.nbytes, x.shape, float32) for x in (a, b)]
        found = np.empty_like(a)
        device.download(_sum_or_product_kernel(*on_device), found, found.dtype)
        return found.tobytes() == np.where(b < a, a + b, a * b).tobytes()


_SUBNORMAL_TEST_INPUTS: Final = (
    np.array([2**-130, 1.5 * 2**-126, 2**-100, 2**-130], np.float32),
    np.array([0, -(2**-126), 2**-40, 2**20], np.float32),
)
"""The inputs of `_sum_or_product_kernel`, whose results include subnormal numbers."""
_sum_or_product_kernel: Final = elementwise("select(a * b, a + b, b < a)", ("a", "b"))
"""A kernel whose results show whether the device flushes subnormal numbers."""


def _has_subnormals(values: NDArray[Any]) -> bool:
    """Return whether there is a nonzero number with a zero exponent field."""
    if values.dtype != np.float32:
        return False
    exponents = values.view(np.uint32) & np.uint32(0x7F800000)
    return np.count_nonzero(exponents) != np.count_nonzero(values)


def _make_error_ignoring_context() -> Context:
    """Return a context in which NumPy neither warns nor raises for floating-point errors such as 1 / 0."""
    context = Context()
    context.run(np.seterr, all="ignore")
    return context


_ERROR_IGNORING_CONTEXT: Final = _make_error_ignoring_context()
"""The context in which NumPy computes without warnings and errors."""
