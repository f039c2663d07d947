"""Attention on GPUs, which compute it in one shader; lavapipe runs that shader, too."""

import numpy as np
import pytest

from plugrad.kernels import attention as contracts
from plugrad_webgpu.kernels import attention

INF = np.float32(np.inf)


@pytest.fixture
def device_as_gpu(run, monkeypatch):
    """The device, treated as a GPU, and the labels of the programs that it records."""
    recorded = []
    record = run.device.record

    def record_and_note(plan, operands):
        recorded.append(plan.program.label)
        record(plan, operands)

    monkeypatch.setattr(run.device, "is_software", False)
    monkeypatch.setitem(
        attention.MAX_ATTENTION_WEIGHTS, "hardware", 0
    )  # else the smallest shader is for many
    monkeypatch.setattr(run.device, "record", record_and_note)
    return recorded


def reference_attention(q, k, v, mask, scale):
    """Return the attention in double precision."""
    q, k, v = (x.astype(float) for x in (q, k, v))
    scores = scale * (q @ k.swapaxes(-1, -2)) + (0 if mask is None else mask)
    largest = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(largest), 0, largest))
    total = weights.sum(-1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total != 0) @ v


def random_inputs(rng, batch, queries, keys, width, size):
    sizes = [(queries, width), (keys, width), (keys, size)]
    return [rng.normal(size=(*batch, *each)).astype("f") for each in sizes]


def run_attention(run, q, k, v, mask, scale):
    arrays = [None if x is None else run.to_device(x) for x in (q, k, v, mask)]
    return run.to_host(run.call(contracts.attention, *arrays, scale=scale))


@pytest.mark.parametrize(
    ("batch", "sizes", "mask"),
    [
        pytest.param((), (1, 1, 1, 1), None, id="one"),
        pytest.param((2, 3), (33, 65, 6, 7), (2, 3, 33, 65), id="parts-of-vectors"),
        pytest.param((2,), (40, 100, 64, 64), (1, 100), id="the-same-mask-for-all-rows"),
        pytest.param((2,), (9, 40, 6, 7), (2, 9, 1), id="the-same-mask-for-all-keys"),
        pytest.param((), (70, 41, 96, 12), (70, 41), id="wide-keys"),
        pytest.param((2,), (70, 41, 6, 100), None, id="wide-values"),
    ],
)
def test_values(run, rng, device_as_gpu, batch, sizes, mask):
    operands = random_inputs(rng, batch, *sizes)
    if mask is not None:
        mask = np.where(rng.random(mask) < 0.5, rng.normal(size=mask), -INF).astype("f")
    found = run_attention(run, *operands, mask, 0.3)
    expected = reference_attention(*operands, mask, 0.3)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert device_as_gpu[-1] == "attention"


def test_rows_without_keys_and_later_keys_are_left_out(run, rng, device_as_gpu):
    """The mask hides the first keys of a row, other keys are in later tiles, and scores grow by 100 each."""
    operands = random_inputs(rng, (), 40, 70, 6, 7)
    mask = np.where(np.tri(40, 70, 10), np.arange(70) * 100, -INF).astype("f")
    mask[:, :35] = -INF
    found = run_attention(run, *operands, mask, 0.5)
    np.testing.assert_allclose(
        found, reference_attention(*operands, mask, 0.5), rtol=1e-5, atol=1e-5
    )
    assert not found[:25].any()
    assert found[25:].all()
    assert device_as_gpu[-1] == "attention"


def test_special_values_reach_their_rows_only(run, rng, device_as_gpu):
    q, k, v = random_inputs(rng, (), 40, 50, 6, 7)
    q[3, 0], q[39, 1], v[49, 2] = np.nan, INF, np.nan
    found = np.isnan(run_attention(run, q, k, v, None, 1.0))
    expected = np.zeros_like(found)
    expected[[3, 39]] = expected[:, 2] = True
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("sizes", "shared_bytes"),
    [((3, 5, 4, 132), 32768), ((3, 5, 300, 4), 32768), ((3, 5, 4, 4), 1024)],
    ids=["wide-values", "wide-keys", "little-memory"],
)
def test_attention_that_exceeds_shared_memory_is_composed(
    run, rng, device_as_gpu, monkeypatch, sizes, shared_bytes
):
    monkeypatch.setattr(run.device, "shared_bytes", shared_bytes)
    operands = random_inputs(rng, (2,), *sizes)
    found = run_attention(run, *operands, None, 0.3)
    np.testing.assert_allclose(
        found, reference_attention(*operands, None, 0.3), rtol=1e-5, atol=1e-5
    )
    assert "attention" not in device_as_gpu


def test_forms_fit_the_memory_and_the_loops_of_devices():
    """Heads of 32 elements fit in the shared memory that WebGPU guarantees; long loops consist of shorter ones."""
    assert attention._choose_shader_sizes(64, 64, 10_000, 49152)[:3] == (16, 1, 2)
    assert attention._choose_shader_sizes(64, 64, 10_000, 32768)[:3] == (16, 1, 1)
    form = attention._choose_shader_sizes(32, 64, 10_000, 16384)
    assert form[:3] == (8, 1, 1)
    assert 16 * sum(form.shared_array_lengths) <= 16384
    assert attention._choose_shader_sizes(128, 128, 10_000, 49152)[:3] == (8, 1, 1)
    assert attention._choose_shader_sizes(64, 64, 200_000, 32768) is None


@pytest.mark.parametrize(("width", "is_composed"), [(32, False), (96, True)])
def test_few_weights_are_in_memory_unless_a_large_shader_has_room(
    run, rng, device_as_gpu, monkeypatch, width, is_composed
):
    monkeypatch.setitem(attention.MAX_ATTENTION_WEIGHTS, "hardware", 1 << 26)
    monkeypatch.setattr(run.device, "shared_bytes", 32768)
    operands = random_inputs(rng, (2,), 33, 40, width, width)
    found = run_attention(run, *operands, None, 0.3)
    np.testing.assert_allclose(
        found, reference_attention(*operands, None, 0.3), rtol=1e-5, atol=1e-5
    )
    assert ("attention" not in device_as_gpu) == is_composed


def test_operands_may_be_larger_than_a_binding(run, rng, device_as_gpu, monkeypatch):
    monkeypatch.setattr(run.device, "part_bytes", 4096)
    monkeypatch.setattr(run.device, "_has_large", True)
    operands = random_inputs(rng, (2,), 40, 50, 12, 12)
    found = run_attention(run, *operands, None, 0.3)
    np.testing.assert_allclose(
        found, reference_attention(*operands, None, 0.3), rtol=1e-5, atol=1e-5
    )
    assert device_as_gpu[-1] == "attention"
