"""A webgpu device for the tests of this folder, opened once, without the engine."""

import os

import numpy as np
import pytest

import plugrad
from plugins.poison import poison_new_buffers
from plugrad.engine.tensorflow_js import has_tensorflow_window, translate_window_attributes
from plugrad_webgpu import backend as make_backend


class ImplementationRunner:
    """Runs webgpu implementations on host arrays, and checks the shape and dtype that the contract promises."""

    def __init__(self):
        self.backend = make_backend()
        probe = self.backend.probe()
        if not probe.ok:
            if "webgpu" in os.environ.get("PLUGRAD_EXPECT_BACKENDS", ""):
                pytest.fail(f"webgpu is expected here but cannot start: {probe.reason}")
            pytest.skip(f"webgpu cannot start: {probe.reason}")
        self.configs = {c.kernel_name: c for c in self.backend.open("")}

    @property
    def device(self):
        return self.backend.active_device

    def to_device(self, values):
        return self.backend.from_numpy(np.asarray(values, order="C"))

    def to_host(self, array):
        return self.backend.to_numpy(array)

    def add_window(self, kernel, arrays, attrs):
        """Return attributes with a window, given the window attributes of TensorFlow.js, which are shorter."""
        if not has_tensorflow_window(kernel, attrs):
            return attrs
        inputs = dict(zip(kernel.inputs, arrays, strict=False))
        return translate_window_attributes(kernel, inputs, attrs)[1]

    def call(self, kernel, *arrays, **attrs):
        attrs = self.add_window(kernel, arrays, attrs)
        return self.configs[kernel.name].kernel_func(*arrays, **kernel.fill_defaults(attrs))

    def __call__(self, kernel, *values, **attrs):
        arrays = [self.to_device(v) for v in values] if kernel.inputs else [self.backend]
        attrs = self.add_window(kernel, arrays, attrs)
        result = self.call(kernel, *arrays, **attrs)
        expected = kernel.infer(*(arrays if kernel.inputs else []), **attrs)
        if isinstance(result, (list, tuple)):
            assert [(r.shape, r.dtype) for r in result] == [tuple(e) for e in expected]
            return [self.to_host(r) for r in result]
        assert (result.shape, result.dtype) == tuple(expected)
        return self.to_host(result)


@pytest.fixture(autouse=True)
def poisoned_buffers(monkeypatch):
    """Poison in new buffers: a result that depends on what a buffer held before differs from the right one."""
    poison_new_buffers(monkeypatch)


@pytest.fixture(scope="session")
def run():
    return ImplementationRunner()


@pytest.fixture(scope="session")
def make_runner():
    return ImplementationRunner


@pytest.fixture(scope="session")
def portable_device(run):
    """A device that uses only the public interface of wgpu-py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("plugrad_webgpu.device.adapters.SUPPORTED_WGPU_VERSION", (0, 0))
        return ImplementationRunner()


@pytest.fixture
def rng():
    return np.random.default_rng(20240229)


@pytest.fixture
def webgpu():
    with plugrad.use("webgpu"):
        yield


@pytest.fixture
def host_small_arrays(run, monkeypatch):
    """Let the device of `run` keep arrays of up to 1,000 elements on the host."""
    monkeypatch.setattr(run.device.hosting, "most", 1000)
    return run.device.hosting


@pytest.fixture
def small_array_device(run, monkeypatch):
    """The engine's device, which keeps arrays of up to 1,000 elements on the host."""
    with plugrad.use("webgpu"):
        device = plugrad.zeros(1).backend.active_device
        monkeypatch.setattr(device.hosting, "most", 1000)
        # What was made of numbers before is on the device.
        plugrad.zeros(1).backend.constants.clear()
        (plugrad.ones(1) + 1).numpy()  # the device has been asked what it does with small numbers
        yield device
        plugrad.zeros(1).backend.constants.clear()
