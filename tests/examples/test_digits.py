"""The main job, shortened: the same losses and accuracy on every backend."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import plugrad

EXAMPLE_FILE = Path(__file__).parents[2] / "examples" / "digits.py"


@pytest.fixture(scope="module")
def digits():
    spec = importlib.util.spec_from_file_location("digits", EXAMPLE_FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def results_on_cpu(digits):
    with plugrad.use("cpu"):
        return train_and_test(digits)


def train_and_test(digits):
    images, labels, test_images, test_labels = digits.load()
    params = digits.MODEL.init(0, (8, 8, 1))
    losses = digits.train(params, images, labels, epochs=10)
    logits = digits.MODEL(params, plugrad.asarray(test_images))
    guesses = plugrad.argmax(logits, axis=1).numpy()
    return losses, float(np.mean(guesses == test_labels))


def test_digits_are_learned(digits, results_on_cpu, backend):
    losses, accuracy = results_on_cpu if backend == "cpu" else train_and_test(digits)
    np.testing.assert_allclose(losses[:20], results_on_cpu[0][:20], rtol=1e-3)
    assert accuracy >= 0.97
    assert abs(accuracy - results_on_cpu[1]) <= 0.01


def test_main_writes_weights_losses_and_a_picture(digits, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["digits.py", "--epochs", "1"])
    monkeypatch.chdir(tmp_path)
    with plugrad.use("cpu"):
        digits.main()
        written = plugrad.load("outputs/cpu/digits.safetensors")
    printed = capsys.readouterr().out
    assert "backend  cpu:0" in printed
    assert "accuracy" in printed
    assert written["params"]["conv2d_1"]["kernel"].shape == (3, 3, 16, 32)
    assert len(written["losses"]) == 22
    assert Path("outputs", "cpu", "digits.png").read_bytes().startswith(b"\x89PNG")
