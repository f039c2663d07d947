"""Ten seconds of random work in four threads, shared by the backends; soak.py runs it for longer."""

import time

import numpy as np
import pytest

import plugrad
from soak.soak import MIN_SAMPLES_PER_QUARTER, Soak

SOAK_SECONDS = {"cpu": 2.5, "wasm": 2.5, "webgpu": 5.0}
MAX_GROWTH = {"webgpu": 2.0}  # its programs take 180 MB; most are compiled in the first minute


def test_soak_run_finds_no_errors_and_no_leaks(backend):
    soak = Soak(
        backend, SOAK_SECONDS.get(backend, 2.5), seed=1, max_growth=MAX_GROWTH.get(backend, 0.5)
    )
    assert soak.run() == []
    assert soak.steps > 0


def test_a_wrong_value_is_found(backend, monkeypatch):
    monkeypatch.setattr("plugrad.round", plugrad.floor)  # each step rounds
    assert "elements differ" in "".join(Soak(backend, 60.0).run())  # it ends with the first


def test_a_leaked_tensor_is_found(monkeypatch):
    left = []
    step = Soak.step

    def leaking(self, rng, kept):
        step(self, rng, kept)
        left.append(plugrad.zeros(40_000))

    monkeypatch.setattr(Soak, "step", leaking)
    problems = "".join(Soak("cpu", 0.2).run())
    assert "tensors: " in problems
    assert "bytes: " in problems


@pytest.mark.parametrize(
    ("second", "last", "is_found"),
    [
        ([100] * 9, [104] * 9, True),
        ([100] * 9, [102] * 9, False),
        ([100] * 8 + [900], [102] * 8 + [900], False),
        ([], [104] * 9, False),  # a thread that got no time saw nothing
        ([100] * 9, [104] * (MIN_SAMPLES_PER_QUARTER - 1), False),
    ],
)
def test_memory_growth_is_reported_only_with_enough_samples(second, last, is_found):
    soak = Soak("cpu", 1.0, samples=([50] * 9, second, [100], last))
    assert (soak.growth_problem() is not None) is is_found


def test_steps_take_samples_but_not_too_many():
    """Samples take memory themselves."""
    soak = Soak("cpu", 1e6, end_time=time.monotonic() + 1e6)
    for step in range(3):
        soak.step(np.random.default_rng(step), [])
    assert [*map(len, soak.samples)] == [1, 0, 0, 0]
    soak.next_sample = 0.0
    soak.step(np.random.default_rng(0), [])
    assert [*map(len, soak.samples)] == [2, 0, 0, 0]
