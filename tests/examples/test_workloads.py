"""The networks that the benchmarks measure compute the same on every backend."""

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import plugrad

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    """Imports one of the programs."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return lambda name: __import__(name)


def losses(benchmark, workload):
    step = benchmark("peer_plugrad").STEPS[workload]()
    return [step.run() for _ in range(6)]


@pytest.mark.parametrize("workload", ["W1", "W2"])
def test_networks_train_as_on_the_cpu(benchmark, workload, backend):
    found = losses(benchmark, workload)
    with plugrad.use("cpu"):
        expected = losses(benchmark, workload)
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    assert found[-1] < 0.9 * found[0]


def test_mobilenet_computes_as_on_the_cpu(benchmark, backend):
    found = benchmark("peer_plugrad").mobilenet().run()
    with plugrad.use("cpu"):
        expected = benchmark("peer_plugrad").mobilenet().run()
    assert found.shape == (1, 1000)
    scale = float(plugrad.max(plugrad.abs(expected)))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=0, atol=1e-4 * scale)


def test_benchmarking_without_packs_does_not_retrace_other_peers(tmp_path):
    peers = ["--peers", "cpu,cpu-jit,cpu without packs", "--reference", "cpu"]
    more = ["--rounds", "10", "--outputs", str(tmp_path), "D3"]
    run = [sys.executable, "-W", "error", str(BENCHMARKS / "run.py"), *peers, *more]
    subprocess.run(run, check=True, capture_output=True)  # or there is a warning of 9 traces
    report = json.loads((tmp_path / "bench.json").read_text("utf-8"))
    (row,) = [row for row in report["rows"] if row["name"] == "D3"]
    assert set(row["ratios"]) == {"cpu", "cpu-jit", "cpu without packs"}
    assert row["ratios"]["cpu-jit"] < row["ratios"]["cpu"] == 1


def test_a_quick_run_agrees_with_the_peers_and_writes_a_page(tmp_path):
    reference = "torch" if find_spec("torch") else "numpy"
    words = ["D4", "adds", "W1", "W8", "matmul 64", "max_pool 3", "Adam"]
    run = [str(BENCHMARKS / "run.py"), "--quick", "--peers", "cpu", "--reference", reference]
    subprocess.run(
        [sys.executable, *run, "--outputs", str(tmp_path), *words], check=True, capture_output=True
    )
    report = json.loads((tmp_path / "bench.json").read_text("utf-8"))
    rows = {row["name"]: row for row in report["rows"]}
    works = {"D4", "adds", "W1", "W8 top-k", "W8 scatter-add"}
    kernels = {"matmul 64, gradient", "max_pool 3, strides 2", "Adam, small"}
    assert works | kernels <= set(rows)
    for name in works if reference == "torch" else {"adds"}:
        values = rows[name]["values"]
        np.testing.assert_allclose(values["cpu"], values[reference], rtol=1e-3, err_msg=name)
        assert rows[name]["ratios"]["cpu"] > 0
    html = (tmp_path / "bench.html").read_text("utf-8")
    assert html.count("<svg") == 2
    assert not re.search(r"""(src|href|url)\s*[=(]""", html)  # it needs no other file
    assert all(f">{name}</td>" in html for name in rows)
