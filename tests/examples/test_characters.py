"""The transformer that writes characters, shortened: it learns, and equally on every backend."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import plugrad

PAGE = Path(__file__).parents[2] / "examples" / "characters.py"
TEXT = "the quick brown fox jumps over the lazy dog, and the dog sleeps. " * 5


@pytest.fixture(scope="module")
def characters():
    spec = importlib.util.spec_from_file_location("characters", PAGE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def learned(characters, steps):
    """Return the losses, and what is written after training."""
    alphabet, numbers = characters.encoded(TEXT)
    weights = characters.initial_weights(len(alphabet), 0)
    losses = characters.train(numbers, weights, steps, 0)
    return losses, alphabet, characters.written(numbers[:20], weights, 5)


def test_losses_fall_as_on_the_cpu(characters, backend):
    losses, _, numbers = learned(characters, 20)
    with plugrad.use("cpu"):
        expected, _, text = learned(characters, 20)
    np.testing.assert_allclose(losses, expected, rtol=2e-3)
    assert losses[-1] < 0.75 * losses[0]
    assert len(numbers) == len(text) == 25


def test_it_learns_a_text_by_heart(characters):
    with plugrad.use("cpu"):
        losses, alphabet, numbers = learned(characters, 150)
    assert losses[-1] < 0.2
    assert TEXT.startswith("".join(alphabet[i] for i in numbers))
