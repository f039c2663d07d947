"""The networks that the benchmarks measure compute the same on every backend."""

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
    step, _ = benchmark("peer_plugrad").all_workloads()[workload]
    return [step() for _ in range(6)]


@pytest.mark.parametrize("workload", ["W1", "W2"])
def test_networks_train_as_on_the_cpu(benchmark, workload, backend):
    found = losses(benchmark, workload)
    with plugrad.use("cpu"):
        expected = losses(benchmark, workload)
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    assert found[-1] < 0.9 * found[0]


def test_mobilenet_computes_as_on_the_cpu(benchmark, backend):
    found = benchmark("against_tfjs").mobilenet()()
    with plugrad.use("cpu"):
        expected = benchmark("against_tfjs").mobilenet()()
    assert found.shape == (1, 1000)
    scale = float(plugrad.max(plugrad.abs(expected)))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=0, atol=1e-4 * scale)
