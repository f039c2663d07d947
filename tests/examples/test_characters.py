"""The transformer that writes characters: it learns, equally on every backend, and continues after a break."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import plugrad
import plugrad_nn as nn

EXAMPLE_FILE = Path(__file__).parents[2] / "examples" / "characters.py"
TEXT = "the quick brown fox jumps over the lazy dog, and the dog sleeps. " * 5
LETTERS = "abcdefghijklmnopqrstuvwxyz " * 8


@pytest.fixture
def characters_module(monkeypatch):
    pytest.importorskip("safetensors")
    monkeypatch.setenv("MPLBACKEND", "agg")
    spec = importlib.util.spec_from_file_location("characters", EXAMPLE_FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def first_losses(characters_module, steps, rate=0.003, text=TEXT):
    """Return the losses of the first steps, and the model, its parameters, the text's numbers and the alphabet."""
    alphabet, numbers = np.unique(list(text), return_inverse=True)
    model = characters_module.language_model(len(alphabet))
    params, optimizer = model.init(0, (characters_module.LENGTH,)), plugrad.optimizers.Adam(rate)
    data = plugrad.asarray(np.int32(numbers))
    found = [characters_module.train(model, params, optimizer, data).item() for _ in range(steps)]
    return found, (model, params, numbers, alphabet)


def test_the_program_is_short():
    code = EXAMPLE_FILE.read_text("utf-8").split('"""', 2)[2]
    assert len([line for line in code.splitlines() if line.strip()]) <= 40


def test_first_losses_match_the_cpu(characters_module, backend):
    found, (model, params, numbers, _) = first_losses(characters_module, 5)
    with plugrad.use("cpu"):
        expected, _ = first_losses(characters_module, 5)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    assert found[-1] < found[0]
    assert len(characters_module.generate(model, params, numbers[:40], 3)) == 43


def test_model_learns_the_alphabet(characters_module):
    with plugrad.use("cpu"):
        found, (model, params, numbers, alphabet) = first_losses(
            characters_module, 40, 0.01, LETTERS
        )
        plugrad.random.seed(0)
        text = "".join(alphabet[characters_module.generate(model, params, numbers[:32], 12)])
    assert found[-1] < 0.5
    assert text == LETTERS[:44]


def test_resumed_training_matches_an_uninterrupted_one(characters_module, tmp_path, capsys):
    (tmp_path / "text").write_text(TEXT, "utf-8")
    path = tmp_path / "new" / "run.safetensors"
    with plugrad.use("cpu"):
        expected, (_, whole, *_) = first_losses(characters_module, 2)
        for steps in ("1", 2):
            characters_module.main(tmp_path / "text", steps, path)
        params, found, _ = plugrad.load(path)
    assert found == expected
    for name, values in whole["dense"].items():
        np.testing.assert_array_equal(params["dense"][name], values)
    assert path.with_suffix(".png").stat().st_size > 5000
    assert f"loss {found[0]:.6f} to {found[1]:.6f}\n{TEXT[:32]}" in capsys.readouterr().out


def test_traced_steps_match_untraced_ones_bit_for_bit(characters_module, backend):
    """Batches and dropout are drawn at each step, from the number of the step."""
    with plugrad.config.override("jit", "replay"):
        traced, (_, params, *_) = first_losses(characters_module, 4)
    with plugrad.config.override("jit", "off"):
        untraced, (_, expected, *_) = first_losses(characters_module, 4)
    assert traced == untraced
    for x, y in zip(nn.leaves(params), nn.leaves(expected), strict=True):
        assert x.numpy().tobytes() == y.numpy().tobytes(), x.name
