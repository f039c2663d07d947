"""Attention on GPUs, which compute it in one shader; lavapipe runs that shader, too."""

import numpy as np
import pytest

from plugrad.kernels import attention as contracts
from plugrad_webgpu.kernels import attention

INFINITY = np.float32(np.inf)


@pytest.fixture
def gpu(run, monkeypatch):
    """The device, treated as a GPU, and the names of the programs that it records."""
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


def attended(q, k, v, mask, scale):
    """Return the result in double precision."""
    q, k, v = (x.astype(float) for x in (q, k, v))
    scores = scale * (q @ k.swapaxes(-1, -2)) + (0 if mask is None else mask)
    largest = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(largest), 0, largest))
    total = weights.sum(-1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total != 0) @ v


def drawn(rng, batch, queries, keys, width, size):
    sizes = [(queries, width), (keys, width), (keys, size)]
    return [rng.normal(size=(*batch, *each)).astype("f") for each in sizes]


def computed(run, q, k, v, mask, scale):
    arrays = [None if x is None else run.up(x) for x in (q, k, v, mask)]
    return run.down(run.call(contracts.attention, *arrays, scale=scale))


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
def test_values(run, rng, gpu, batch, sizes, mask):
    operands = drawn(rng, batch, *sizes)
    if mask is not None:
        mask = np.where(rng.random(mask) < 0.5, rng.normal(size=mask), -INFINITY).astype("f")
    found = computed(run, *operands, mask, 0.3)
    expected = attended(*operands, mask, 0.3)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert gpu[-1] == "attention"


def test_rows_without_keys_and_later_keys_are_left_out(run, rng, gpu):
    """A row begins with keys that the mask hides, and others come in later tiles; scores grow by 100 each."""
    operands = drawn(rng, (), 40, 70, 6, 7)
    mask = np.where(np.tri(40, 70, 10), np.arange(70) * 100, -INFINITY).astype("f")
    mask[:, :35] = -INFINITY
    found = computed(run, *operands, mask, 0.5)
    np.testing.assert_allclose(found, attended(*operands, mask, 0.5), rtol=1e-5, atol=1e-5)
    assert not found[:25].any()
    assert found[25:].all()
    assert gpu[-1] == "attention"


def test_special_values_reach_their_rows_only(run, rng, gpu):
    q, k, v = drawn(rng, (), 40, 50, 6, 7)
    q[3, 0], q[39, 1], v[49, 2] = np.nan, INFINITY, np.nan
    found = np.isnan(computed(run, q, k, v, None, 1.0))
    expected = np.zeros_like(found)
    expected[[3, 39]] = expected[:, 2] = True
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("sizes", "shared_bytes"),
    [((3, 5, 4, 132), 32768), ((3, 5, 300, 4), 32768), ((3, 5, 4, 4), 1024)],
    ids=["wide-values", "wide-keys", "little-memory"],
)
def test_what_does_not_fit_is_composed(run, rng, gpu, monkeypatch, sizes, shared_bytes):
    monkeypatch.setattr(run.device, "shared_bytes", shared_bytes)
    operands = drawn(rng, (2,), *sizes)
    found = computed(run, *operands, None, 0.3)
    np.testing.assert_allclose(found, attended(*operands, None, 0.3), rtol=1e-5, atol=1e-5)
    assert "attention" not in gpu


def test_forms_fit_the_memory_and_the_loops_of_devices():
    """With the memory that WebGPU guarantees, heads of 32 elements fit; long loops are composed."""
    assert attention._choose_shader_sizes(64, 64, 10_000, 49152)[:3] == (16, 1, 2)
    assert attention._choose_shader_sizes(64, 64, 10_000, 32768)[:3] == (16, 1, 1)
    form = attention._choose_shader_sizes(32, 64, 10_000, 16384)
    assert form[:3] == (8, 1, 1)
    assert 16 * sum(form.shared_array_lengths) <= 16384
    assert attention._choose_shader_sizes(128, 128, 10_000, 49152)[:3] == (8, 1, 1)
    assert attention._choose_shader_sizes(64, 64, 200_000, 32768) is None


@pytest.mark.parametrize(("width", "is_composed"), [(32, False), (96, True)])
def test_few_weights_are_in_memory_unless_a_large_shader_has_room(
    run, rng, gpu, monkeypatch, width, is_composed
):
    monkeypatch.setitem(attention.MAX_ATTENTION_WEIGHTS, "hardware", 1 << 26)
    monkeypatch.setattr(run.device, "shared_bytes", 32768)
    operands = drawn(rng, (2,), 33, 40, width, width)
    found = computed(run, *operands, None, 0.3)
    np.testing.assert_allclose(found, attended(*operands, None, 0.3), rtol=1e-5, atol=1e-5)
    assert ("attention" not in gpu) == is_composed


def test_operands_may_be_larger_than_a_binding(run, rng, gpu, monkeypatch):
    monkeypatch.setattr(run.device, "part_bytes", 4096)
    monkeypatch.setattr(run.device, "_has_large", True)
    operands = drawn(rng, (2,), 40, 50, 12, 12)
    found = computed(run, *operands, None, 0.3)
    np.testing.assert_allclose(found, attended(*operands, None, 0.3), rtol=1e-5, atol=1e-5)
    assert gpu[-1] == "attention"
