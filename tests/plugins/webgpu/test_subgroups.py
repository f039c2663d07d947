"""Workgroups combine the results of their invocations by subgroup operations or through shared memory."""

import numpy as np
import pytest

from plugrad.kernels import normalization, reduction
from plugrad_webgpu.algorithms.subgroups import (
    DEFAULT_WORKGROUP_SIZE,
    workgroup_reduction_function,
)


@pytest.fixture(params=[True, False], ids=["subgroups", "memory"])
def device_as_gpu(request, run, monkeypatch):
    """A device treated as a GPU, and the sources of the programs that it runs."""
    device, sources = run.device, []
    if request.param and not device.subgroup_size:
        pytest.skip("this device has no subgroups")
    monkeypatch.setattr(device, "is_software", False)
    monkeypatch.setattr(device, "_subgroup", device.subgroup_size if request.param else 0)
    record = device.record

    def note(plan, operands):
        sources.append(plan.program.source())
        record(plan, operands)

    monkeypatch.setattr(device, "record", note)
    yield run
    assert any("subgroupShuffleXor" in source for source in sources) is request.param


@pytest.mark.parametrize("shape", [(257,), (3, 700), (70_003,), (5, 4096)], ids=str)
def test_reductions_by_subgroups(device_as_gpu, rng, shape):
    axis = len(shape) - 1
    n = rng.integers(-100, 100, shape)
    for dtype in (np.float32, np.int32, np.uint32, np.int64, np.int8, np.complex64):
        x = n.astype(dtype)
        total = device_as_gpu(reduction.sum, x, axis=(axis,))
        np.testing.assert_array_equal(total, x.sum(axis, dtype=dtype))
    for dtype in (np.float32, np.int64):
        x = n.astype(dtype)
        np.testing.assert_array_equal(device_as_gpu(reduction.min, x, axis=(axis,)), x.min(axis))
    np.testing.assert_array_equal(
        device_as_gpu(reduction.any, n > 98, axis=(axis,)), (n > 98).any(axis)
    )
    x = n.astype(np.float32)
    x.flat[::300] = [np.nan, np.inf, -np.inf, -0.0, *x.flat[:9_999]][: len(x.flat[::300])]
    found = device_as_gpu(reduction.max, x, reduction_indices=(axis,))
    np.testing.assert_array_equal(found, x.max(axis))


def test_row_normalizations_by_subgroups(device_as_gpu, rng):
    x = rng.standard_normal((5, 300)).astype(np.float32)
    x[1, 7], x[2, 9], x[3] = np.inf, -np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max(1, keepdims=True))
        expected = e / e.sum(1, keepdims=True)
    np.testing.assert_allclose(device_as_gpu(normalization.softmax, x, dim=1), expected, atol=1e-6)
    x = rng.standard_normal((7, 130), np.float32)
    centred = x - x.mean(1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
    found = device_as_gpu.call(
        normalization.layer_norm, device_as_gpu.to_device(x), None, None, axis=1
    )
    np.testing.assert_allclose(device_as_gpu.to_host(found), expected, atol=1e-5)


def test_a_subgroup_may_be_larger_than_a_workgroup():
    """Lanes without an invocation contribute no values."""
    assert f"min(lanes, {DEFAULT_WORKGROUP_SIZE}u)" in workgroup_reduction_function(
        "total", "a + b", "f32", True
    )
