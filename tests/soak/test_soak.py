"""Ten seconds of random work in four threads, shared by the backends; soak.py runs it for longer."""

import plugrad
from soak.soak import Soak

SECONDS = {"cpu": 2.5, "wasm": 2.5, "webgpu": 5.0}
GROWTH = {"webgpu": 2.0}  # its programs take 180 MB; most are compiled in the first minute


def test_nothing_is_wrong_and_nothing_is_left(backend):
    soak = Soak(backend, SECONDS.get(backend, 2.5), seed=1, growth=GROWTH.get(backend, 0.5))
    assert soak.run() == []
    assert soak.steps > 0


def test_a_wrong_value_is_found(backend, monkeypatch):
    monkeypatch.setattr("plugrad.round", plugrad.floor)  # each step rounds
    assert "elements differ" in "".join(Soak(backend, 60.0).run())  # it ends with the first


def test_a_tensor_that_stays_is_found(monkeypatch):
    left = []
    step = Soak.step

    def leaking(self, rng, kept):
        step(self, rng, kept)
        left.append(plugrad.zeros(40_000))

    monkeypatch.setattr(Soak, "step", leaking)
    wrong = "".join(Soak("cpu", 0.2).run())
    assert "tensors: " in wrong
    assert "bytes: " in wrong
