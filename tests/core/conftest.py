"""Tests of core run on cpu, without the settings of whoever runs them, and with a second backend to hand."""

import os

import numpy as np
import pytest

import plugrad
from installed import open_installed
from plugrad.discovery import loading
from plugrad.discovery.state import state
from plugrad.extend import (
    Backend,
    DeviceInfo,
    KernelTable,
    Memory,
    Probe,
    bool_,
    float32,
    int32,
)
from plugrad.kernels import binary, creation, movement, reduction, unary
from plugrad.registry.transaction import load_all_registrations, snapshot_loaded_registries

FUNCTIONS = {
    binary.add: np.add,
    binary.multiply: np.multiply,
    creation.ones_like: np.ones_like,
    creation.zeros_like: np.zeros_like,
    creation.fill: lambda backend, *, shape, value, dtype: np.full(shape, value, str(dtype)),
    movement.reshape: lambda x, *, shape: x.reshape(shape),
    movement.broadcast_to: lambda x, *, shape: np.broadcast_to(x, shape),
    reduction.sum: lambda x, *, axis, keep_dims: x.sum(axis=axis, keepdims=keep_dims),
    unary.exp: np.exp,
}


class FakeBackend(Backend):
    """A backend with two devices, few kernels and few dtypes. `events` tells what happened to it."""

    name = "fake_device"
    cap = None
    events: list = []  # noqa: RUF012 - the fixture empties it

    def devices(self):
        return (DeviceInfo("0", "a fake"), DeviceInfo("1", "another fake", is_software=True))

    def probe(self):
        return Probe(ok=True, devices=self.devices())

    def open(self, device):
        self.device = device or "0"
        table = KernelTable(self.name)
        table.update(FUNCTIONS)
        table.implements(
            unary.negative,
            setup=lambda backend: self.events.append(("setup", backend)),
            dispose=lambda backend: self.events.append(("dispose", backend)),
        )(np.negative)
        return table

    def dtypes(self):
        return frozenset({float32, int32, bool_})

    def from_numpy(self, array):
        return array.copy()

    def to_numpy(self, array):
        return np.array(array)

    def synchronize(self):
        pass

    def memory(self):
        return Memory(0, 0, 0, self.cap)

    def set_memory_limit(self, limit):
        self.cap = limit

    def close(self):
        self.events.append(("close", self))


def forget(name):
    """Undo `register_backend`, for which there is no public function."""
    for backend in loading.opened_backends():
        if backend.name == name:
            loading.close_backend(backend)
    for config in plugrad.get_kernels_for_backend(name):
        plugrad.unregister_kernel(config.kernel_name, name)
    state.added[:] = [c for c in state.added if c.name != name]
    plugrad.backends(refresh=True)


@pytest.fixture
def fake():
    """The name of a second backend."""
    FakeBackend.events.clear()
    plugrad.register_backend("fake_device", FakeBackend)
    yield "fake_device"
    forget("fake_device")


@pytest.fixture
def fake_type():
    """The class of the second backend, to derive others from."""
    return FakeBackend


@pytest.fixture
def registered():
    """A function that registers a backend of this process for one test."""
    names = []

    def register(name, factory, **options):
        plugrad.register_backend(name, factory, **options)
        names.append(name)

    yield register
    for name in names:
        forget(name)


@pytest.fixture(scope="session")
def elsewhere(tmp_path_factory):
    """An empty folder, in and above which no project has settings."""
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture(autouse=True)
def settings(monkeypatch, elsewhere):
    """Only the settings of the test count; unless it says otherwise, it runs on cpu.

    It runs in an empty folder: to read pyproject.toml took longer than most tests. What devices of webgpu keep on the
    host holds here, too: a test may be the first to open one, which stays open for the tests of other folders.
    """
    monkeypatch.chdir(elsewhere)
    for name in os.environ:
        if name.startswith("PLUGRAD_") and name != "PLUGRAD_WEBGPU_HOST_ELEMENTS":
            monkeypatch.delenv(name)
    monkeypatch.setenv("PLUGRAD_BACKEND", "cpu")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(elsewhere / "no configuration"))
    plugrad.config.reset()
    yield
    plugrad.config.reset()


@pytest.fixture(scope="session")
def complete():
    """All gradients and rules of plugrad's own are registered, which snapshots need: it takes milliseconds."""
    load_all_registrations()


@pytest.fixture(autouse=True)
def registries(complete, settings):
    """Contracts, implementations for cpu and gradients that a test adds are gone after it."""
    open_installed()
    restore = snapshot_loaded_registries()
    yield
    restore()
