"""The command ``plugrad onnx``."""

import json

import numpy as np
import pytest

pytest.importorskip("onnx")

import onnx

from plugins.onnx.making import parse_model
from plugrad.cli import main

WEIGHTS = np.array([[0.5, -1.0], [2.0, 0.25], [-1.0, 1.0]], np.float32)


@pytest.fixture
def model_file(tmp_path):
    proto = parse_model(
        "g (float[n, 3] x, int64 k) => (float[n, 2] y) { h = MatMul(x, w)  y = Relu(h) }", w=WEIGHTS
    )
    onnx.save(proto, tmp_path / "dense.onnx")
    return str(tmp_path / "dense.onnx")


def test_info_describes_a_model(model_file, capsys):
    assert main(["onnx", "info", model_file]) == 0
    printed = capsys.readouterr().out
    for line in (
        "operators of  ai.onnx 20",
        "weights       1 tensors, 6 numbers, 24 bytes",
        "x      float32  (n, 3)",
        "k      int64    ()",
        "y       float32  (n, 2)",
        "MatMul    1",
    ):
        assert line in printed.splitlines()


def test_info_lists_unsupported_operators(tmp_path, capsys):
    onnx.save(parse_model("g (float[n] x) => (float[n] y) { y = Sinus(x) }"), tmp_path / "f.onnx")
    assert main(["onnx", "info", str(tmp_path / "f.onnx"), "--json"]) == 1
    record = json.loads(capsys.readouterr().out)
    assert record["operators"] == {"Sinus": 1}
    assert "ONNX has no such operator" in record["problems"]


@pytest.mark.parametrize("compiled", [[], ["--jit"]])
def test_run_shows_outputs_and_times(backend, model_file, compiled, tmp_path, capsys):
    x = np.ones((4, 3), np.float32)
    np.save(tmp_path / "x.npy", x)
    to = str(tmp_path / "out.npz")
    words = ["--input", f"x={tmp_path / 'x.npy'}", "--backend", backend, "--output", to]
    assert main(["onnx", "run", model_file, "--times", "1", "--json", *words, *compiled]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["device"].startswith(backend)
    assert record["outputs"][0] == {
        "name": "y", "dtype": "float32", "shape": "(4, 2)", "least": "0.25", "mean": "0.875",
        "most": "1.5",
    }  # fmt: skip
    assert record["milliseconds"].keys() == {"load", "first run", "fastest run", "median run"}
    np.testing.assert_allclose(np.load(to)["y"], np.maximum(x @ WEIGHTS, 0))


def test_run_makes_inputs_of_the_sizes_that_are_asked_for(model_file, capsys):
    assert main(["onnx", "run", model_file, "--size", "n=5", "--backend", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert "x      float32  (5, 3)" in printed
    assert "fastest run" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--size", "n"], "--size n: expected NAME=N"),
        (["--size", "n=many"], "--size n: expected NAME=N"),
        (["--input", "z=f.npy"], "--input z: the inputs are x, k"),
        (["--input", "x=nothing.npy"], "nothing.npy: No such file or directory"),
        (["--times", "0"], "--times 0: expected a positive number"),
    ],
)
def test_wrong_arguments_are_refused(model_file, words, message, capsys):
    assert main(["onnx", "run", model_file, *words]) == 2
    assert message in capsys.readouterr().err


def test_without_a_subcommand_help_is_printed(capsys):
    assert main(["onnx"]) == 0
    assert "run a model on given or random inputs" in capsys.readouterr().out
