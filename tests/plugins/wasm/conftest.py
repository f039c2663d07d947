"""A wasm backend of its own for each test, and its implementations by kernel name."""

from itertools import count

import numpy as np
import pytest

import plugrad
from installed import open_installed
from plugins.poison import poison_new_blocks
from plugrad.extend import NUMERIC, KernelConfig, Shaped, as_dtype, kernel, register_kernel
from plugrad.registry.transaction import snapshot_registries

pytest.importorskip("wasmtime")

from plugrad_wasm import backend as wasm_backend, load_wasm_kernel


class ImplementationRunner:
    """Calls wasm implementations on host arrays without the engine: ``run("Add", a, b)``."""

    def __init__(self, threads=None):
        self.backend = wasm_backend()
        self.backend.options = {"threads": threads}
        self.functions = {c.kernel_name: c.kernel_func for c in self.backend.open("")}

    @property
    def store(self):
        return self.backend.linear_memory.store

    def put(self, array):
        return self.backend.from_numpy(np.ascontiguousarray(array).reshape(np.shape(array)))

    def get(self, array):
        host = self.backend.to_numpy(array)
        assert host.shape == array.shape
        assert as_dtype(host.dtype) is array.dtype
        return host

    def __call__(self, name, *inputs, **attrs):
        given = (None if x is None else self.put(x) for x in inputs)
        result = self.functions[name](*given, **attrs)
        return [*map(self.get, result)] if isinstance(result, (list, tuple)) else self.get(result)


@pytest.fixture(autouse=True)
def poisoned_blocks(monkeypatch):
    """Poison in new blocks: a result that depends on what memory held before differs from the right one."""
    poison_new_blocks(monkeypatch)


@pytest.fixture(scope="module")
def run():
    return ImplementationRunner()


@pytest.fixture
def fresh_runner():
    return ImplementationRunner()


@pytest.fixture
def runner_class():
    return ImplementationRunner


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def register_contract():
    """A function that registers contracts until the test ends."""
    open_installed()  # so that restoring does not remove its kernels
    restore = snapshot_registries()
    names = map("test>Sandbox{}".format, count())
    yield lambda rule: kernel(next(names), accepts=NUMERIC)(rule)
    restore()


@pytest.fixture
def register_module(register_contract):
    """A function that registers a wasm module for a contract with one output like its input, and returns the kernel."""

    def make(source, rule=None, **limits):
        made = register_contract(rule or (lambda x: Shaped(x.shape, x.dtype)))
        register_kernel(KernelConfig(made.name, "wasm", load_wasm_kernel(source, made, **limits)))
        return made

    with plugrad.use("wasm"):
        yield make
