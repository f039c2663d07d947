"""Sixteen programs that people write first: they learn what they should, in at most the lines of PyTorch.

The folder `short` has each program twice. Counterparts run where PyTorch is installed, and torchdiffeq for one of them.
"""

import ast
import io
import runpy
import shutil
import tokenize
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import plugrad

if find_spec("plugrad_numerics") is None:
    pytest.skip("plugrad-numerics is not installed", allow_module_level=True)

FOLDER = Path(__file__).with_name("short")
DIGITS_FILE = Path(__file__).parents[2] / "examples" / "data" / "digits.csv.gz"


def is_near_two(x):
    near = np.mean(np.abs(np.abs(x) - 2) < 0.6)
    return near > 0.8 and 0.2 < np.mean(x > 0) < 0.8


def is_circle(x):
    return abs(np.median(np.linalg.norm(x, axis=1)) - 1) < 0.4


RESULT_CHECKS = {
    "line": lambda found: np.allclose(found, (2, 1), atol=0.1),
    "digits": lambda accuracy: accuracy > 0.9,
    "convnet": lambda accuracy: accuracy > 0.9,
    "characters": lambda text: text == "the quick brown fox jumps over the lazy dog. ",
    "forecast": lambda error: error < 0.05,
    "classifier": lambda accuracy: accuracy > 0.8,
    "ratings": lambda error: error < 0.5,
    "physics": lambda y: np.allclose(y, np.exp([[-1], [-2]]), atol=0.05),
    "gan": lambda mean: abs(mean - 3) < 1,
    "diffusion": is_near_two,
    "translation": lambda accuracy: accuracy > 0.8,
    "vae": is_circle,
    "policy": lambda actions: actions == [2, 0, 3, 1],
    "graph": lambda accuracy: accuracy > 0.9,
    "ode": lambda found: np.allclose(found, (1.5, 3), atol=0.2),
    "transfer": lambda accuracy: accuracy > 0.9,
}
"""What is true of the result of a program that has learned."""


def count_code_lines(path):
    """Return the number of lines with code: no blank lines, no comments, no docstrings."""
    text = path.read_text("utf-8")
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (
            tokenize.COMMENT,
            tokenize.NL,
            tokenize.NEWLINE,
            tokenize.INDENT,
            tokenize.DEDENT,
            tokenize.ENDMARKER,
        ):
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(
            node
        ):
            first = node.body[0]
            lines.difference_update(range(first.lineno, first.end_lineno + 1))
    return len(lines)


@pytest.fixture
def folder_with_data(tmp_path, monkeypatch):
    """Work in a folder with the files that programs read."""
    from safetensors.numpy import save_file

    monkeypatch.chdir(tmp_path)
    shutil.copy(DIGITS_FILE, tmp_path)
    rng = np.random.default_rng(0)
    # What torch.nn.Sequential(Linear(8, 32), ReLU(), Linear(32, 5)) saves.
    weights = {"0.weight": (32, 8), "0.bias": 32, "2.weight": (5, 32), "2.bias": 5}
    weights = {name: rng.normal(size=size).astype("float32") for name, size in weights.items()}
    save_file(weights, "model.safetensors")
    x = rng.normal(size=(200, 8)).astype("float32")
    hidden = np.maximum(x @ weights["0.weight"].T + weights["0.bias"], 0)
    np.save("x.npy", x)
    np.save("labels.npy", np.argmax(hidden[:, :3], axis=1))


@pytest.mark.parametrize("name", RESULT_CHECKS)
def test_programs_learn(name, folder_with_data):
    with plugrad.use("cpu"):
        assert RESULT_CHECKS[name](runpy.run_path(str(FOLDER / f"{name}.py"))["result"])


@pytest.mark.parametrize("name", RESULT_CHECKS)
@pytest.mark.filterwarnings("ignore")  # PyTorch warns when it is imported
def test_counterparts_in_torch_learn(name, folder_with_data):
    for module in ("torch", "torchdiffeq") if name == "ode" else ("torch",):
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    assert RESULT_CHECKS[name](runpy.run_path(str(FOLDER / f"{name}_torch.py"))["result"])


@pytest.mark.parametrize("name", RESULT_CHECKS)
def test_programs_have_at_most_the_lines_of_their_counterparts(name):
    ours, theirs = (count_code_lines(FOLDER / f"{name}{end}.py") for end in ("", "_torch"))
    assert ours <= theirs


def test_every_program_is_run():
    assert {path.stem.removesuffix("_torch") for path in FOLDER.glob("*.py")} == set(RESULT_CHECKS)
