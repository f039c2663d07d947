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

NUMPY_FUNCTIONS = {
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
    """A backend with two devices, few kernels and few dtypes; `events` lists the calls of its methods."""

    name = "fake_device"
    memory_limit = None
    events: list = []  # noqa: RUF012 - the fixture empties it

    def devices(self):
        return (DeviceInfo("0", "a fake"), DeviceInfo("1", "another fake", is_software=True))

    def probe(self):
        return Probe(ok=True, devices=self.devices())

    def open(self, device):
        self.device = device or "0"
        table = KernelTable(self.name)
        table.update(NUMPY_FUNCTIONS)
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
        return Memory(0, 0, 0, self.memory_limit)

    def set_memory_limit(self, limit):
        self.memory_limit = limit

    def close(self):
        self.events.append(("close", self))


def unregister_backend(name):
    """Undo `register_backend`, for which there is no public function."""
    for backend in loading.opened_backends():
        if backend.name == name:
            loading.close_backend(backend)
    for config in plugrad.get_kernels_for_backend(name):
        plugrad.unregister_kernel(config.kernel_name, name)
    state.added[:] = [c for c in state.added if c.name != name]
    plugrad.backends(refresh=True)


@pytest.fixture
def fake_backend_name():
    """The name of a second backend."""
    FakeBackend.events.clear()
    plugrad.register_backend("fake_device", FakeBackend)
    yield "fake_device"
    unregister_backend("fake_device")


@pytest.fixture
def fake_backend_class():
    """The class of the second backend, for tests to subclass."""
    return FakeBackend


@pytest.fixture
def register_for_test():
    """A function that registers a backend during one test."""
    names = []

    def register(name, factory, **options):
        plugrad.register_backend(name, factory, **options)
        names.append(name)

    yield register
    for name in names:
        unregister_backend(name)


@pytest.fixture(scope="session")
def empty_folder(tmp_path_factory):
    """An empty folder; no folder above it has settings."""
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture(autouse=True)
def isolated_settings(monkeypatch, empty_folder):
    """Isolate the test from the user's settings, and select cpu.

    It runs in an empty folder: to read pyproject.toml took longer than most tests. What devices of webgpu keep on the
    host holds here, too: a test may be the first to open one, which stays open for the tests of other folders.
    """
    monkeypatch.chdir(empty_folder)
    for name in os.environ:
        if name.startswith("PLUGRAD_") and name != "PLUGRAD_WEBGPU_HOST_ELEMENTS":
            monkeypatch.delenv(name)
    monkeypatch.setenv("PLUGRAD_BACKEND", "cpu")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(empty_folder / "no configuration"))
    plugrad.config.reset()
    yield
    plugrad.config.reset()


@pytest.fixture(scope="session")
def all_rules_loaded():
    """Load all gradient rules and batching rules, so that a snapshot of the registries contains them."""
    load_all_registrations()


@pytest.fixture(autouse=True)
def restored_registries(all_rules_loaded, isolated_settings):
    """Remove after the test the contracts, implementations and gradients that it registers."""
    open_installed()
    restore = snapshot_loaded_registries()
    yield
    restore()
