"""A wasm backend of its own for each test, and its implementations by kernel name."""

import numpy as np
import pytest

from plugrad.extend import as_dtype

pytest.importorskip("wasmtime")

from plugrad_wasm import backend as wasm_backend


class Implementations:
    """Calls implementations on host arrays: ``run("Add", a, b)``; the engine stays out of it."""

    def __init__(self, threads=None):
        self.backend = wasm_backend()
        self.backend.options = {"threads": threads}
        self.functions = {c.kernel_name: c.kernel_func for c in self.backend.open("")}

    @property
    def store(self):
        return self.backend.linear.store

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


@pytest.fixture(scope="module")
def run():
    return Implementations()


@pytest.fixture
def fresh():
    return Implementations()


@pytest.fixture
def opened():
    return Implementations


@pytest.fixture
def rng():
    return np.random.default_rng(7)
