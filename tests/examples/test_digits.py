"""The main job, shortened: the same losses and accuracy on every backend."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import plugrad

PAGE = Path(__file__).parents[2] / "examples" / "digits.py"


@pytest.fixture(scope="module")
def digits():
    spec = importlib.util.spec_from_file_location("digits", PAGE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def expected(digits):
    with plugrad.use("cpu"):
        return _trained(digits)


def _trained(digits):
    images, labels, test_images, test_labels = digits.load(0)
    weights = digits.initial_weights(0)
    losses = digits.train(images, labels, weights, epochs=15, seed=0)
    logits = digits.predict(plugrad.asarray(test_images), weights)
    guesses = plugrad.argmax(logits, axis=1).numpy()
    return losses, float(np.mean(guesses == test_labels))


def test_digits_are_learned(digits, expected, backend):
    losses, accuracy = _trained(digits)
    np.testing.assert_allclose(losses[:20], expected[0][:20], rtol=1e-3)
    assert accuracy >= 0.97
    assert abs(accuracy - expected[1]) <= 0.01


def test_main_writes_weights_losses_and_a_picture(digits, tmp_path, monkeypatch, capsys):
    from safetensors.numpy import load_file

    monkeypatch.setattr("sys.argv", ["digits.py", "--epochs", "1", "--output", str(tmp_path)])
    with plugrad.use("cpu"):
        digits.main()
    printed = capsys.readouterr().out
    assert "backend  cpu:0" in printed
    assert "accuracy" in printed
    weights = load_file(tmp_path / "cpu" / "digits.safetensors")
    assert weights["conv2.kernel"].shape == (3, 3, 16, 32)
    assert len(np.loadtxt(tmp_path / "cpu" / "losses.csv")) == 22
    assert (tmp_path / "cpu" / "digits.png").read_bytes().startswith(b"\x89PNG")
