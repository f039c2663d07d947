"""Checks of a backend's life cycle: its manifest, storage, memory counts, limits and closing."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.discovery.listing import backends
from plugrad.discovery.loading import close_backend
from plugrad.discovery.selection import use
from plugrad.errors import DeviceLost, OutOfMemory, UnsupportedDtype
from plugrad.kernels import binary
from plugrad.ops.creation import asarray
from plugrad.ops.transfer import to_device
from plugrad.registry.kernels import find_kernel, list_kernels
from plugrad.tensor.backend import Backend, Memory, Probe
from plugrad.testing.checks import NotClaimed, require_kernel
from plugrad.testing.rows import STRING_DTYPE, Array
from plugrad.types.bits import comparable_bits
from plugrad.types.dtype import DTYPES, DType, as_dtype

if TYPE_CHECKING:
    from collections.abc import Callable

MEBIBYTE: Final = 2**20
DTYPE_NAMES: Final = tuple(str(dtype) for dtype in DTYPES)
"""The names of all dtypes that a backend may store."""
MAX_BUFFER_SIZE_FACTOR: Final = 2
"""How many times as large as the array a buffer may be."""


def expect(condition: bool, message: str) -> None:
    """Raise unless a condition holds."""
    if not condition:
        raise AssertionError(message)


# --- what it says ---------------------------------------------------------------------------------


def manifest_keeps_its_promises(backend: Backend, device_spec: str) -> None:
    """Check that whatever the manifest of a backend lists is there when the plugin runs."""
    plugin = next(p for p in backends() if p.name == backend.name and p.status == "active")
    manifest = plugin.manifest
    stored = {str(dtype) for dtype in backend.dtypes()}
    missing = sorted(set(manifest.dtypes) - stored)
    expect(not missing, f"the manifest promises dtypes {missing}; dtypes() does not have them")
    has = {config.kernel_name for config in list_kernels(backend)}
    lacking = sorted(set(manifest.kernels) - has)
    expect(not lacking, f"the manifest promises kernels {lacking}, which are not registered")


def probe_returns_the_devices(backend: Backend, device_spec: str) -> None:
    """Check that probing returns the devices, and does no harm when the backend is open."""
    first, second = backend.probe(), backend.probe()
    expect(isinstance(first, Probe) and first.ok, f"probe() gives {first}")  # pyright: ignore[reportUnnecessaryIsInstance]
    expect(first == second, f"probe() gives {first}, then {second}")
    names = [device.name for device in first.devices]
    expect(backend.device in names, f"device {backend.device!r} is not among the probed {names}")
    expect(len(names) == len(set(names)), f"two devices have one name: {names}")
    expect(backend.devices() == first.devices, "devices() differs from probe().devices")


def dtypes_are_plugrads(backend: Backend, device_spec: str) -> None:
    """Check that a backend's method `dtypes` returns plugrad's own dtypes."""
    stored = backend.dtypes()
    expect(bool(stored), "dtypes() is empty")
    strange = [d for d in stored if not isinstance(d, DType)]  # pyright: ignore[reportUnnecessaryIsInstance]
    expect(not strange, f"dtypes() has {strange}, which are no plugrad dtypes")


def other_dtypes_are_refused(backend: Backend, device_spec: str) -> None:
    """Check that dtypes that the backend lacks raise an error that names it, and are never converted silently."""
    others = [dtype for dtype in DTYPES if dtype not in backend.dtypes()]
    if not others:
        raise NotClaimed(f"{backend.name} stores every dtype")
    for dtype in others:
        try:
            made = asarray(np.zeros(2, dtype.numpy))
        except UnsupportedDtype as refusal:
            expect(backend.name in str(refusal), f"the error for {dtype} must name the backend")
        else:
            raise AssertionError(f"an array of {dtype} became a tensor of {made.dtype}")


# --- what it stores -------------------------------------------------------------------------------


def extreme_values(dtype: str) -> Array:
    """Return the values of a dtype that are most often stored incorrectly."""
    kind = as_dtype(dtype).kind
    if kind == "string":
        return np.array(["", "a", "é", "日本語 🙂", "long " * 50], STRING_DTYPE)
    if kind == "bool":
        return np.array([True, False, True])
    if kind in ("signed", "unsigned"):
        span = np.iinfo(dtype)
        return np.array([span.min, span.max, 0, 1, span.max - 1, span.min + 1], dtype)
    span = np.finfo(dtype)
    ends = [span.max, span.min, span.tiny, span.smallest_subnormal, span.eps, 1 / 3]
    values = np.array([*ends, 0.0, -0.0, np.inf, -np.inf, np.nan], span.dtype)
    return (values + 1j * values[::-1]).astype(dtype) if kind == "complex" else values


def check_storing(dtype: str, backend: Backend) -> None:
    """Store arrays of many shapes on a backend, and compare the values that are read back bit by bit."""
    values = extreme_values(dtype)
    shapes = [(), (1,), (0,), (2, 0, 3), (7,), (2, 3), (2, 1, 3, 1, 2), (50_001,)]
    arrays = [*values.reshape(-1, 1), *(np.resize(values, shape) for shape in shapes)]
    table = np.resize(values, (6, 8))
    arrays += [table.T, table[::-1, ::2], np.asfortranarray(table), np.broadcast_to(values[:1], 5)]
    for array in arrays:
        x = asarray(array)
        what = f"an array of {dtype} of shape {array.shape}"
        expect(x.backend is backend, f"{what} went to {x.device}")
        expect(tuple(x.array.shape) == array.shape, f"{what} has shape {x.array.shape}")
        expect(as_dtype(x.array.dtype) == dtype, f"{what} has dtype {x.array.dtype}")
        back = x.numpy()
        expect(
            back.shape == array.shape and as_dtype(back.dtype) == dtype, f"{what} became {back!r}"
        )
        expect(
            comparable_bits(back) == comparable_bits(array),
            f"{what} became {back!r} instead of {array!r}",
        )


def main_number_dtype(backend: Backend) -> str:
    """Return a numeric dtype that the backend stores.

    Raises:
        NotClaimed: it stores no numbers.
    """
    for name in ("float32", "float64", "int32", *DTYPE_NAMES):
        if as_dtype(name) in backend.dtypes() and name not in ("bool", "string"):
            return name
    raise NotClaimed(f"{backend.name} stores no numbers")


def small_numbers(backend: Backend, nbytes: int) -> Array:
    """Return an array of small numbers in a dtype of the backend, which takes `nbytes` bytes."""
    dtype = np.dtype(main_number_dtype(backend))
    return (np.arange(nbytes // dtype.itemsize) % 100).astype(dtype)


def tensors_keep_their_values(backend: Backend, device_spec: str) -> None:
    """Check that a tensor on the backend does not change with the array that it was made of."""
    array = small_numbers(backend, MEBIBYTE)
    expected = array.copy()
    x = asarray(array)
    array[:] = 7
    np.testing.assert_array_equal(x.numpy(), expected, "the tensor changed with its source")


def values_outlive_their_tensor(backend: Backend, device_spec: str) -> None:
    """Check that values stay right when their tensor on the backend is gone and its memory is used again."""
    expected = small_numbers(backend, MEBIBYTE)
    values = asarray(expected).numpy()
    gc.collect()
    others = [asarray(np.full_like(expected, i)) for i in range(4)]
    np.testing.assert_array_equal(values, expected, "values that were read changed afterwards")
    del others


def cpu_and_backend_exchange_tensors(backend: Backend, device_spec: str) -> None:
    """Check that copies to the backend cpu and back have the same values."""
    if backend.name == "cpu" or not any(p.name == "cpu" for p in backends()):
        raise NotClaimed("there is no cpu backend beside this one")
    expected = small_numbers(backend, 400)
    there = to_device(asarray(expected), "cpu")
    expect(there.device.startswith("cpu:"), f"x.to('cpu') lives on {there.device}")
    back = to_device(there, device_spec)
    expect(back.backend is backend, f"x.to({device_spec!r}) lives on {back.device}")
    np.testing.assert_array_equal(back.numpy(), expected)


# --- what it counts -------------------------------------------------------------------------------


def collect_and_read_memory(backend: Backend) -> Memory:
    """Return the memory in use on a backend after waiting for all work and collecting garbage."""
    gc.collect()
    backend.synchronize()
    return backend.memory()


def memory_is_counted(backend: Backend, device_spec: str) -> None:
    """Check that a backend counts an array's memory from its creation until its last reference is gone."""
    array = small_numbers(backend, MEBIBYTE)
    before = collect_and_read_memory(backend)
    x = asarray(array)
    during = collect_and_read_memory(backend)
    grown = during.bytes - before.bytes
    expect(
        array.nbytes <= grown <= MAX_BUFFER_SIZE_FACTOR * array.nbytes,
        f"memory().bytes grew by {grown} when an array of {array.nbytes} bytes was stored",
    )
    expect(
        during.buffers == before.buffers + 1, f"{before.buffers} buffers became {during.buffers}"
    )
    expect(
        during.peak >= during.bytes, f"the peak {during.peak} is less than {during.bytes} in use"
    )
    x.dispose()
    after = collect_and_read_memory(backend)
    expect(
        (after.bytes, after.buffers) == (before.bytes, before.buffers),
        f"after dispose() {after.bytes} bytes in {after.buffers} buffers are in use; "
        f"before it were {before.bytes} in {before.buffers}",
    )
    expect(after.peak >= during.bytes, "the peak forgot an array that is gone")


def nothing_leaks(backend: Backend, device_spec: str) -> None:
    """Check that results on a backend to which nothing refers give their memory back."""
    require_kernel(binary.add, backend)
    x = asarray(small_numbers(backend, MEBIBYTE))
    before = collect_and_read_memory(backend)
    for _ in range(50):
        y = x + x + x
        del y
    after = collect_and_read_memory(backend)
    expect(
        after.bytes <= before.bytes,
        f"{before.bytes} bytes in use became {after.bytes} after 50 sums that nobody kept",
    )


def memory_limit_is_kept(backend: Backend, device_spec: str) -> None:
    """Check that only an allocation beyond a backend's memory limit raises an error."""
    small, large = small_numbers(backend, MEBIBYTE), small_numbers(backend, 64 * MEBIBYTE)
    limit = collect_and_read_memory(backend).bytes + 16 * MEBIBYTE
    backend.set_memory_limit(limit)
    try:
        expect(backend.memory().limit == limit, f"memory().limit is {backend.memory().limit}")
        asarray(small)
        _expect_out_of_memory(lambda: asarray(large), "an array")
        if find_kernel(binary.add.name, backend) is not None:
            x = asarray(small[:4096])
            tall, wide = x.reshape((4096, 1)), x.reshape((1, 4096))
            _expect_out_of_memory(lambda: tall + wide, "the result of a kernel")
        asarray(small)
    finally:
        backend.set_memory_limit(None)
    expect(backend.memory().limit is None, "set_memory_limit(None) leaves a limit")
    np.testing.assert_array_equal(asarray(large).numpy(), large)


def _expect_out_of_memory(allocate: Callable[[], Any], description: str) -> None:
    """Raise unless an allocation of 64 MiB raises OutOfMemory."""
    try:
        allocate()
    except OutOfMemory:
        return
    raise AssertionError(f"{description} of 64 MiB exceeded a limit that had 16 MiB left")


# --- how it ends ----------------------------------------------------------------------------------


def synchronize_returns(backend: Backend, device_spec: str) -> None:
    """Check that a backend's `synchronize` returns when there is nothing to wait for, and when it is called twice."""
    backend.synchronize()
    asarray(small_numbers(backend, 400))
    backend.synchronize()
    backend.synchronize()


def backend_opens_again_after_it_was_closed(backend: Backend, device_spec: str) -> None:
    """Check that a closed backend opens again, and works."""
    expected = small_numbers(backend, 4000)
    read = asarray(expected).numpy()
    close_backend(backend)
    expect(backend.is_closed, "is_closed is False after close()")
    np.testing.assert_array_equal(read, expected, "values that were read changed at close()")
    with use(device_spec) as again:
        expect(again.backend is not backend, "the closed backend was opened again")
        np.testing.assert_array_equal(asarray(expected).numpy(), expected)


def lost_device_is_an_error(backend: Backend, device_spec: str) -> None:
    """Check that a lost device's tensors raise DeviceLost, and that the next use opens another device."""
    if type(backend).lose_device is Backend.lose_device:
        raise NotClaimed(f"{backend.name} does not implement lose_device()")
    expected = small_numbers(backend, 400_000)  # a backend may keep small arrays on the host
    x = asarray(expected)
    backend.synchronize()
    backend.lose_device()
    for use_it in (x.numpy, x.numpy, lambda: asarray(expected, device=backend)):
        try:
            use_it()
        except DeviceLost:
            continue
        raise AssertionError("a lost device computes on; it must raise DeviceLost")
    with use(device_spec) as again:
        expect(again.backend is not backend, "the lost device was used again")
        expect(backend.is_closed, "the lost device is not closed")
        np.testing.assert_array_equal(asarray(expected).numpy(), expected)


LIFECYCLE_CHECKS: Final[list[Callable[[Backend, str], None]]] = [
    manifest_keeps_its_promises,
    probe_returns_the_devices,
    dtypes_are_plugrads,
    other_dtypes_are_refused,
    tensors_keep_their_values,
    values_outlive_their_tensor,
    cpu_and_backend_exchange_tensors,
    memory_is_counted,
    nothing_leaks,
    memory_limit_is_kept,
    synchronize_returns,
    backend_opens_again_after_it_was_closed,
    lost_device_is_an_error,
]
"""The checks of a backend's life cycle, in the order in which they run."""
