"""Backends that store float32 and little else are tested by what programs in float32 need."""

import json

import pytest

from plugins.kit import run_pytest

pytestmark = pytest.mark.long

FLOAT32_BACKENDS_SOURCE = """
import plugrad
from plugrad.extend import KERNELS, KernelTable
from plugrad_cpu.device import Cpu

pytest_plugins = ["plugrad.testing.plugin"]


class Single(Cpu):
    name, stored, lacks = "single", {"float32"}, ""

    def open(self, device):
        table = KernelTable(self.name)
        for config in super().open(device):
            if config.kernel_name != self.lacks:
                table.update({KERNELS[config.kernel_name]: config.kernel_func})
        return table

    def dtypes(self):
        return frozenset(map(plugrad.as_dtype, self.stored))


class Program(Single):
    name, stored = "program", {"float32", "int32", "bool"}


class Lacking(Program):
    name, lacks = "lacking", "Exp"


for backend in (Single, Program, Lacking):
    plugrad.register_backend(backend.name, backend)
"""
TESTED_KERNELS = {"Exp", "Svd", "Select", "RFFT", "Relu", "BitwiseAnd", "ArgMax"}


@pytest.fixture(scope="module")
def float32_project(tmp_path_factory):
    """The repository of three backends that store float32, two of them also int32 and bool."""
    folder = tmp_path_factory.mktemp("single")
    (folder / "conftest.py").write_text(FLOAT32_BACKENDS_SOURCE)
    (folder / "test_conformance.py").write_text("from plugrad.testing.suite import *\n")
    (folder / "pytest.ini").write_text("[pytest]\n")
    return folder


def run_kit_on_float32(folder, backends, *arguments):
    words = " or ".join((*(f"{kernel}." for kernel in TESTED_KERNELS), "x["))
    code, printed, _ = run_pytest(folder, f"--plugrad-backend={backends}", "-k", words, *arguments)
    report = json.loads((folder / "report.json").read_text("utf-8"))
    return code, printed, report["backends"]


def test_level_float32_needs_every_kernel_of_programs_in_float32(float32_project):
    code, printed, found = run_kit_on_float32(
        float32_project, "single,program,lacking", "--plugrad-level=float32"
    )
    assert code == 1, printed
    assert {name: list(about["failures"]) for name, about in found.items()} == {
        "single": [],
        "program": [],
        "lacking": ["float32/Exp.1"],
    }
    assert "lacking does not implement Exp" in found["lacking"]["failures"]["float32/Exp.1"]
    passed = {
        name: TESTED_KERNELS
        & {kernel for kernel, counts in about["kernels"].items() if counts["passed"]}
        for name, about in found.items()
    }
    assert passed["single"] == {"Exp", "Svd", "Relu"}
    assert passed["program"] == {"Exp", "Svd", "Relu", "Select", "ArgMax", "BitwiseAnd"}
    assert found["single"]["skips"]["single does not store bool"] >= 1
    assert found["program"]["skips"]["RFFT needs complex64"] >= 1


def test_tests_that_need_unsupported_dtypes_are_skipped(float32_project):
    code, printed, found = run_kit_on_float32(float32_project, "single")
    assert code == 0, printed
    skips = found["single"]["skips"]
    for dtype in ("int32", "bool", "complex64"):
        assert skips[f"single does not store {dtype}, which this test needs"] >= 1
