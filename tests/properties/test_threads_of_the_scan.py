"""Every case of the benchmark's scan of kernels gives the same bits with 1, 2 and 7 threads."""

import importlib
import sys
from pathlib import Path

import pytest

import plugrad
from conftest import selected_backends
from plugrad.errors import UnsupportedDtype
from properties.test_invariances import thread_setter

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
MODULES = ("kernels_of_arrays", "kernels_of_networks")
MAX_AXIS_LENGTH = 400
"""Long enough for several parts of a vector or of some columns, where little work is shared."""
THREAD_COUNTS = (1, 2, 7)


def scan_families():
    """Return the benchmark families, and a function that prepares a case."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        cases, *modules = map(importlib.import_module, ("cases", *MODULES))
    finally:
        sys.path.remove(str(BENCHMARKS))
    return cases, {name: family for module in modules for name, family in module.FAMILIES.items()}


CASES, FAMILIES = scan_families()


class LimitedCases(CASES.Cases):
    """The benchmark cases with a limit on the length of axes."""

    def n(self, size):
        return min(size, MAX_AXIS_LENGTH)


def outputs(case, tensors):
    """Return the bytes of the results of a case, or of its gradients."""
    plugrad.random.seed(0)
    if case.is_prepared:
        result = case.in_plugrad(*tensors)()
    elif case.gradient_positions:
        y = case.in_plugrad(*tensors)
        result = plugrad.grad(case.in_plugrad, case.gradient_positions)(
            *tensors, dy=plugrad.ones_like(y)
        )
    else:
        result = case.in_plugrad(*tensors)
    several = result if isinstance(result, tuple | list) else [result]
    return [x.numpy().tobytes() for x in several]


def pytest_generate_tests(metafunc):
    names = [
        name for name in selected_backends(metafunc.config) if name != "webgpu"
    ]  # it has no threads
    metafunc.parametrize("machine", names)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_threads_compute_the_same_bits(machine, family, monkeypatch):
    with plugrad.use(machine), plugrad.config.override("unsupported_dtype", "error"):
        set_threads = thread_setter(machine, monkeypatch)
        for case in LimitedCases({family: FAMILIES[family]}, quick=False).found:
            try:
                tensors = [plugrad.asarray(x) for x in case.inputs]
                found = []
                for count in THREAD_COUNTS:
                    set_threads(count)
                    found.append(outputs(case, tensors))
            except UnsupportedDtype:
                continue
            assert found[0] == found[1] == found[2], f"{case.name} depends on the threads"
