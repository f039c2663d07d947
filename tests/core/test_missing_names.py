"""Errors for names of other frameworks: what they say to write is there, and runs."""

import re

import numpy as np
import pytest

import plugrad
from plugrad.absent import MISSING_NAME_HINTS
from plugrad.ops.operators import MISSING_ATTRIBUTE_HINTS


def scope_of_hints():
    """Return values for the variables in the code of hints, by name."""
    x = plugrad.asarray(np.arange(1, 9).reshape(2, 2, 2).astype("float32") / 10)
    return {
        "plugrad": plugrad,
        "x": x,
        "y": x + 1,
        "axes": (2, 1, 0),
        "bias": plugrad.ones(2),
        "carry": (plugrad.ones(()),),
        "condition": lambda c: c < 0,
        "data": [1.0, 2.0],
        "array": np.ones(3),
        "dtype": "float64",
        "f": lambda a: plugrad.sum(a**2),
        "function": lambda a: a * 2,
        "k": 2,
        "key": (0, 0),
        "labels": plugrad.asarray([[0.0, 1.0]]),
        "least": 0,
        "end": 5,
        "logits": plugrad.asarray([[0.5, 2.0]]),
        "mask": x > 0.3,
        "most": 1,
        "repetitions": (1, 2, 1),
        "n": 4,
        "name": "cpu",
        "number": 3,
        "percent": 25,
        "positions": plugrad.asarray([0, 1]),
        "predictions": plugrad.asarray([[0.1, 0.9]]),
        "probabilities": plugrad.asarray([[0.1, 0.9]]),
        "seed": 1,
        "shape": (2, 2, 2),
        "table": plugrad.ones((3, 4)),
        "tolerance": 0.1,
        "value": 0.5,
        "weights": plugrad.ones((2, 2)),
    }


def code_in_hint(hint):
    """Return the Python code in a hint, or None."""
    found = re.match(r"(?:write|call) (.+?)(?:, or .*|, for .*|;.*)?$", hint)
    return found and found[1]


# What the same words stand for in hints about images, complex numbers and steps.
SPECIAL_SCOPES = {
    "avg_pool2d": {"x": np.ones((1, 4, 4, 1), "float32"), "size": 2},
    "conv_transpose2d": {"x": np.ones((1, 4, 4, 1), "float32"), "filters": np.ones((2, 2, 1, 1), "float32")},
    "fori_loop": {"step": lambda c, _: (c, c), "n": 3},
    "gather": {"x": np.ones((2, 2), "float32"), "positions": np.zeros((2, 2), "int32")},
    "imag": {"x": plugrad.asarray([1 + 2j])},
    "max_pool2d": {"x": np.ones((1, 4, 4, 1), "float32"), "size": 2},
    "random.choice": {"shape": (3,), "x": np.arange(4.0), "n": 4},
    "segment_sum": {"x": np.ones((2, 3), "float32")},
}  # fmt: skip


@pytest.mark.parametrize("name", MISSING_NAME_HINTS)
def test_the_code_that_a_hint_gives_runs(monkeypatch, name):
    module, _, attribute = f"plugrad.{name}".rpartition(".")
    namespace = plugrad
    if short_name := module.partition(".")[2]:
        monkeypatch.delattr(plugrad, short_name, raising=False)  # as before its first use
        namespace = getattr(plugrad, short_name)
    with pytest.raises(AttributeError, match=re.escape(f"{module} does not have '{attribute}': ")):
        getattr(namespace, attribute)
    for dotted in re.findall(r"plugrad(?:\.\w+)+", MISSING_NAME_HINTS[name]):
        eval(dotted, {"plugrad": plugrad})
    if code := code_in_hint(MISSING_NAME_HINTS[name]):
        with plugrad.use("cpu"):  # one of the hints chooses a backend
            exec(code, {**scope_of_hints(), **SPECIAL_SCOPES.get(name, {})})


@pytest.mark.parametrize("name", MISSING_ATTRIBUTE_HINTS)
def test_the_code_that_a_hint_of_tensors_gives_runs(name):
    hint = MISSING_ATTRIBUTE_HINTS[name]
    with pytest.raises(AttributeError, match=re.escape(f"tensors do not have '{name}': {hint}")):
        getattr(plugrad.ones(2), name)
    if code := code_in_hint(hint):
        with plugrad.use("cpu"):  # one of the hints chooses a backend
            exec(code, {**scope_of_hints(), **SPECIAL_SCOPES.get(name, {})})
    for dotted in re.findall(r"plugrad(?:\.\w+)+", hint):
        eval(dotted, {"plugrad": plugrad})


@pytest.mark.parametrize(
    ("namespace", "name", "remedy"),
    [
        (None, "cholesky", "write plugrad.linalg.cholesky"),
        (None, "Adam", "write plugrad.optimizers.Adam"),
        ("linalg", "einsum", "write plugrad.einsum"),
        ("random", "softmax", "write plugrad.softmax"),
        ("fft", "hann_window", "write plugrad.signal.hann_window"),
    ],
)
def test_a_name_of_another_public_module_is_found_there(monkeypatch, namespace, name, remedy):
    if namespace:
        monkeypatch.delattr(plugrad, namespace, raising=False)  # as before its first use
    module = getattr(plugrad, namespace) if namespace else plugrad
    with pytest.raises(AttributeError, match=f"does not have '{name}': {remedy}$"):
        getattr(module, name)
