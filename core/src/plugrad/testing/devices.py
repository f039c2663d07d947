"""Checks of a backend that is opened again, and of several of its devices: kernels belong to an opened device."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.discovery.listing import backends
from plugrad.discovery.loading import close_backend, open_backend, opened_backends
from plugrad.discovery.selection import use
from plugrad.errors import BackendMismatch, DisposedTensor, OutOfMemory, UnsupportedDtype
from plugrad.kernels import binary
from plugrad.ops.creation import asarray
from plugrad.registry.kernels import find_kernel
from plugrad.settings.layers import config
from plugrad.testing.checks import NotClaimed, check_values, main_dtype, require_kernel
from plugrad.testing.lifecycle import MEBIBYTE, collect_and_read_memory, expect, small_numbers
from plugrad.testing.tables import rows

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from plugrad.tensor.backend import Backend
    from plugrad.tensor.tensor import Tensor

LIMIT_HEADROOM_BYTES: Final = 16 * MEBIBYTE
"""The bytes by which the memory limit of a check exceeds the memory in use."""


# --- one device, opened again ---------------------------------------------------------------------


@contextmanager
def reopen_backend(backend: Backend, device_spec: str) -> Generator[Backend]:
    """Close a backend, and return the new object that the next use opens."""
    close_backend(backend)
    with use(device_spec) as again:
        expect(again.backend is not backend, "the closed backend was opened again")
        yield again.backend


def kernels_work_on_a_reopened_backend(backend: Backend, device_spec: str) -> None:
    """Check that each kernel works on the device opened last, and none on the one that was closed."""
    asarray(small_numbers(backend, 4000))
    with reopen_backend(backend, device_spec) as again:
        _check_kernels(again)
        _check_memory_count(again)


def memory_limit_holds_on_a_reopened_backend(backend: Backend, device_spec: str) -> None:
    """Check that the limit in the settings holds for a reopened backend and its kernels' results."""
    with config.override(
        "memory_limit", collect_and_read_memory(backend).bytes + LIMIT_HEADROOM_BYTES
    ):
        limit = config.get("memory_limit")
        with reopen_backend(backend, device_spec) as again:
            expect(again.memory().limit == limit, f"memory().limit is {again.memory().limit}")
            again.set_memory_limit(
                collect_and_read_memory(again).bytes + LIMIT_HEADROOM_BYTES
            )  # the closed one may have freed memory
            _check_memory_limit(again)
    with use(device_spec) as selection:
        now = selection.backend.memory().limit
        expect(now is None, f"memory().limit is {now} when the setting is none again")


def tensors_of_a_closed_backend_are_refused(backend: Backend, device_spec: str) -> None:
    """Check that any use of a tensor whose backend is closed raises an error that says so."""
    require_kernel(binary.add, backend)
    x = asarray(small_numbers(backend, 4000))
    y = x + x
    with reopen_backend(backend, device_spec):
        z = asarray(small_numbers(backend, 4000))
        attempts: dict[str, Callable[[], object]] = {
            "x.numpy()": x.numpy,
            "y.numpy()": y.numpy,
            "x + x": lambda: x + x,
            "x + z, where z is new": lambda: x + z,
        }
        for what, attempt in attempts.items():
            try:
                attempt()
            except DisposedTensor as refusal:
                named = backend.label in str(refusal) and "closed" in str(refusal)
                expect(named, f"the error of {what} must say that {backend.label} was closed")
            else:
                raise AssertionError(f"{what} is no error, and x lived on a closed backend")


# --- several devices ------------------------------------------------------------------------------


@contextmanager
def _second_device(backend: Backend) -> Generator[Backend]:
    """Open a device beside the one under test; close it afterwards unless it was open before.

    Raises:
        NotClaimed: the backend has one device.
    """
    plugin = next(p for p in backends() if p.name == backend.name and p.status == "active")
    others = [device.name for device in backend.devices() if device.name != backend.device]
    if not others:
        raise NotClaimed(f"{backend.name} has one device")
    before = opened_backends()
    second = open_backend(plugin.qualified_name, others[0])
    expect(second is not backend, f"opening {others[0]!r} gives {backend.label} again")
    expect(second.device == others[0], f"device {others[0]!r} says that it is {second.device!r}")
    try:
        yield second
    finally:
        if second not in before:
            close_backend(second)


def kernels_run_on_the_device_they_belong_to(backend: Backend, device_spec: str) -> None:
    """Each kernel runs on a second device, which counts the memory of the results."""
    with _second_device(backend) as second:
        _check_kernels(second)
        _check_memory_count(second)
        _check_memory_count(backend)


def memory_limit_is_that_of_one_device(backend: Backend, device_spec: str) -> None:
    """Check that a device's kernels keep its own limit, and not the limit of another device."""
    with _second_device(backend) as second:
        for limited, free in ((second, backend), (backend, second)):
            limited.set_memory_limit(collect_and_read_memory(limited).bytes + LIMIT_HEADROOM_BYTES)
            try:
                _check_memory_limit(limited)
                array = small_numbers(free, 64 * MEBIBYTE)
                np.testing.assert_array_equal(asarray(array, device=free).numpy(), array)
            finally:
                limited.set_memory_limit(None)


def devices_work_in_turns(backend: Backend, device_spec: str) -> None:
    """Calls on two devices that alternate do not disturb each other, and their tensors do not mix."""
    require_kernel(binary.add, backend)
    with _second_device(backend) as second:
        expected = small_numbers(backend, 4000)
        x, y = asarray(expected, device=backend), asarray(expected[::-1], device=second)
        for step in range(1, 4):
            x, y = x + x, y + y
            _check_device_and_values(x, backend, expected * 2**step)
            _check_device_and_values(y, second, expected[::-1] * 2**step)
        try:
            x + y  # pyright: ignore[reportUnusedExpression]
        except BackendMismatch:
            return
        raise AssertionError(f"a tensor on {x.device} and one on {y.device} were added")


def closing_one_device_leaves_the_other(backend: Backend, device_spec: str) -> None:
    """The kernels of a device work when another one has been closed."""
    with _second_device(backend) as second:
        x = asarray(small_numbers(backend, 4000))
        expected = x.numpy()
        close_backend(second)
        _check_device_and_values(x, backend, expected)
        _check_kernels(backend)


# --- what both check ------------------------------------------------------------------------------


def _check_device_and_values(x: Tensor, backend: Backend, values: Any) -> None:
    """Check that a tensor is on a device and has the right values."""
    expect(x.backend is backend, f"a result of {backend.label} lives on {x.device}")
    np.testing.assert_array_equal(x.numpy(), values)


def _check_kernels(backend: Backend) -> None:
    """Compare one row of each kernel with NumPy on a device."""
    done: set[str] = set()
    with _use_backend(backend):
        for row in rows():
            if row.is_edge or row.kernel.name in done:
                continue
            try:
                dtype = main_dtype(row, backend)
                check_values(row, dtype, row.draw_inputs(dtype))
            except (NotClaimed, UnsupportedDtype):
                continue
            done.add(row.kernel.name)


@contextmanager
def _use_backend(backend: Backend) -> Generator[None]:
    """Make a device the active one within the block."""
    plugin = next(p for p in backends() if p.name == backend.name and p.status == "active")
    with use(f"{plugin.qualified_name}:{backend.device}") as selection:
        expect(
            selection.backend is backend, f"{backend.label} gives another object when it is used"
        )
        yield


def _check_memory_count(backend: Backend) -> None:
    """Compare the bytes of a kernel's result with the bytes that the device counts."""
    require_kernel(binary.add, backend)
    x = asarray(small_numbers(backend, MEBIBYTE), device=backend)
    before = collect_and_read_memory(backend).bytes
    y = x + x
    grown = collect_and_read_memory(backend).bytes - before
    expect(
        y.backend is backend and grown >= MEBIBYTE,
        f"memory().bytes of {backend.label} grew by {grown} when a kernel returned an array of {MEBIBYTE} bytes",
    )


def _check_memory_limit(backend: Backend) -> None:
    """Check that an array and the result of a kernel may not exceed the limit of a device."""
    attempts: dict[str, Callable[[], object]] = {
        "an array": lambda: asarray(small_numbers(backend, 64 * MEBIBYTE), device=backend)
    }
    if find_kernel(binary.add.name, backend) is not None:
        numbers = small_numbers(backend, MEBIBYTE)[:4096]
        column = asarray(numbers.reshape(-1, 1), device=backend)
        line = asarray(numbers.reshape(1, -1), device=backend)
        attempts["the result of a kernel"] = lambda: column + line
    for what, attempt in attempts.items():
        try:
            attempt()
        except OutOfMemory:
            continue
        raise AssertionError(f"{what} of 64 MiB exceeded the limit of {backend.label}")


REOPENING_CHECKS: Final[list[Callable[[Backend, str], None]]] = [
    kernels_work_on_a_reopened_backend,
    memory_limit_holds_on_a_reopened_backend,
    tensors_of_a_closed_backend_are_refused,
]
"""The checks of a backend that is closed and opened again."""
DEVICE_CHECKS: Final[list[Callable[[Backend, str], None]]] = [
    kernels_run_on_the_device_they_belong_to,
    memory_limit_is_that_of_one_device,
    devices_work_in_turns,
    closing_one_device_leaves_the_other,
]
"""The checks of a backend that has a second device."""
