"""The conformance kit: its tables are complete, the backends pass it, and mistakes do not."""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

import plugrad
from plugins.kit import run_conformance_kit, run_outside_repository, run_pytest
from plugrad.extend import KERNELS
from plugrad.testing import edges, report as reports, tables
from plugrad.testing.checks import check_values, is_differentiable
from plugrad.testing.tables import rows
from plugrad.testing.xfail import XfailEntries
from plugrad.types.dtype import as_dtype

KIT_LEVELS = [
    "lifecycle",
    "core",
    "gradients",
    "full",
    "edges",
    "reopening",
    "devices",
    "traced",
    "batched",
]
KERNEL_FAMILIES = sorted(
    {k.family for k in KERNELS.values() if k.rule.__module__.startswith("plugrad.")}
)
CORE_KERNELS = [name for name, kernel in KERNELS.items() if kernel.family in KERNEL_FAMILIES]


# --- the tables -----------------------------------------------------------------------------------


def test_every_family_has_a_table():
    folder = Path(tables.__file__).parent
    assert sorted(path.stem for path in folder.glob("[!_]*.py")) == KERNEL_FAMILIES


def test_every_kernel_has_a_row():
    assert set(CORE_KERNELS) <= {row.kernel.name for row in rows()}


def test_every_gradient_is_compared():
    compared = {row.kernel.name for row in rows() if is_differentiable(row)}
    for name in CORE_KERNELS:
        gradient, inputs = plugrad.get_gradient(name), range(len(KERNELS[name].inputs) or 1)
        if gradient is not None and gradient.planner(KERNELS[name], tuple(inputs)) is not None:
            assert name in compared


def with_wrong_last_element(function):
    """Return an implementation whose last output has a wrong last element."""

    def implementation(*inputs, **attrs):
        result = function(*inputs, **attrs)
        parts = [
            np.array(part, order="C")
            for part in (result if isinstance(result, tuple | list) else [result])
        ]
        last = parts[-1].reshape(-1)[-1:]
        kind = as_dtype(last.dtype).kind
        last[...] = ~last if kind == "bool" else last + "!" if kind == "string" else last + 1
        parts[-1].reshape(-1)[-1:] = last
        return parts if isinstance(result, tuple | list) else parts[0]

    return implementation


@pytest.mark.parametrize("name", CORE_KERNELS)
def test_one_wrong_element_is_seen(name):
    with plugrad.use("cpu"):
        function = plugrad.get_kernel(name, "cpu").kernel_func
        mine = [row for row in rows() if row.kernel.name == name and not row.is_edge]
        with plugrad.override_kernel(name, "cpu", with_wrong_last_element(function)):
            for row in mine:
                with pytest.raises(AssertionError):
                    check_values(row, row.tested_dtypes[0], row.draw_inputs(row.tested_dtypes[0]))


def test_rows_have_the_attributes_of_their_contract():
    for row in rows():
        row.kernel.fill_defaults(row.attributes(row.tested_dtypes[0]))
        assert (
            len(row.inputs) == len(row.kernel.inputs)
            or row.kernel.takes_list
            or (len(row.inputs) < len(row.kernel.inputs) and row.kernel.optional_inputs)
        )


@pytest.mark.parametrize(
    ("kernel", "least", "most"),
    [("Relu6Grad", 0, 6), ("SigmoidGrad", 0, 1), ("EluGrad", -1, np.inf)],
)
def test_results_of_functions_are_in_their_range(kernel, least, most):
    mine = [row for row in rows() if row.kernel.name == kernel]
    for row in mine:
        fed = [row.draw_inputs(dtype)[1] for dtype in row.tested_dtypes]
        fed += [edges.special_inputs(row, "float32")[1]]
        fed += [
            row.with_shapes(*[shape] * 2).draw_inputs("float32")[1] for shape in edges.EDGE_SHAPES
        ]
        for y in fed:
            assert np.all(np.isnan(y) | ((least <= y) & (y <= most)))
    ends = edges.special_inputs(mine[0], "float32")[1]
    assert np.nanmin(ends) == least
    assert np.nanmax(ends) == most


def test_the_kit_imports_no_backend():
    for path in Path(tables.__file__).parents[1].rglob("*.py"):
        assert "plugrad_cpu" not in path.read_text("utf-8")


# --- the backends ---------------------------------------------------------------------------------


LEVELS_RUN_BY_OTHER_TESTS = {
    # tests/passes/test_bits.py and tests/families/test_batching.py check more of every row on cpu.
    "cpu": ("traced", "batched"),
    # tests/families compares the same rows in the same dtypes, and their gradients to second order, more strictly.
    "wasm": ("core", "full", "gradients"),
    "webgpu": ("core", "full", "gradients"),
}
"""The tests of rows that the kit need not run once more, by backend."""
LEVELS_WITHOUT_TESTS = {
    "cpu": {"batched"},
    "wasm": {"core", "gradients"},
    "webgpu": {"core", "gradients"},
}
"""The levels that have no other tests."""


@pytest.mark.long
def test_backend_passes_the_conformance_kit(backend, tmp_path):
    left_out = " and ".join(f"not test_{name}[" for name in LEVELS_RUN_BY_OTHER_TESTS[backend])
    code, printed, report = run_conformance_kit(
        tmp_path, backend, badge="badge.svg", arguments=["-k", left_out]
    )
    assert code == 0, printed
    found = report["backends"][backend]
    assert list(found["levels"]) == [
        x for x in KIT_LEVELS if x not in LEVELS_WITHOUT_TESTS[backend]
    ]
    assert (found["failures"], found["xfailures"]) == ({}, {})
    passed = {name for name, counts in found["kernels"].items() if counts["passed"]}
    has = {config.kernel_name for config in plugrad.get_kernels_for_backend(backend)}
    assert passed == has & set(CORE_KERNELS)
    assert found["versions"].keys() == {"plugrad-core", f"plugrad-{backend}", "numpy"}
    assert f"{len(passed)} kernels pass" in (tmp_path / "badge.svg").read_text("utf-8")


# --- mistakes -------------------------------------------------------------------------------------


# A copy of the cpu backend that makes them.
FAULTY_BACKEND_SOURCE = '''
"""A backend that makes mistakes."""

import numpy as np
import plugrad
from plugrad.extend import KERNELS, KernelTable, Memory
from plugrad_cpu.device import Cpu

pytest_plugins = ["plugrad.testing.plugin"]


def add(a, b):
    n = min(a.shape[-1:] + b.shape[-1:], default=0)
    return np.add(a[..., :n], b[..., :n]) if n > 1 and a.ndim and b.ndim else np.add(a, b)


MISTAKES = {
    "Exp": lambda x: np.exp(x) * 1.0001,
    "Sign": lambda x: np.sign(x, out=x) if x.flags.writeable and x.ndim else np.sign(x),
    "Maximum": np.fmax,
    "ArgMax": lambda x, *, axis: np.argmax(x, axis),
    "Transpose": lambda x, *, perm: x.T,
    "Log": lambda x: np.log(x) if x.size else 1 / 0,
    "Add": add,
    "Softmax": lambda logits, *, dim: np.exp(logits) / np.exp(logits).sum(dim, keepdims=True),
    "Cumsum": lambda x, *, axis, exclusive, reverse: np.cumsum(x, axis, x.dtype),
    "GatherV2": lambda x, indices, *, axis, batch_dims: np.take(x, indices, axis, mode="clip"),
    "AvgPoolGrad": lambda dy, input, **how: np.zeros_like(input),
}


class Careless(Cpu):
    name = "careless"

    def open(self, device):
        table = KernelTable("careless")
        for config in super().open(device):
            function = MISTAKES.get(config.kernel_name, config.kernel_func)
            table.update({KERNELS[config.kernel_name]: function})
        return table

    def from_numpy(self, array):
        return array

    def memory(self):
        return Memory(7, 7, 7)

    def set_memory_limit(self, limit):
        pass


plugrad.register_backend("careless", Careless)
'''
WRONG_KERNELS = (
    *("Exp", "Sign", "Maximum", "ArgMax", "Transpose", "Log", "Add", "Softmax", "Cumsum"),
    *("GatherV2", "AvgPool", "AvgPoolGrad"),
)
RIGHT_KERNELS = ("Cos", "MaxPool", "Tile", "Unique")
EXPECTED_FAILURES = {
    "core/Exp.1-float32": "Not equal to tolerance",
    "core/Sign.1-float32": "an input was changed",
    "special_values/Maximum.1": "Not equal to tolerance",
    "core/ArgMax.1-float32": "the dtype is int64; it must be int32",
    "core/Transpose.2-float32": "the shape is",
    "shapes/Log.1": "ZeroDivisionError",
    "refusals/Add.1": "the implementation must fail where shapes do not fit",
    "edges/Softmax.6-float32": "Not equal to tolerance",
    "full/Cumsum.2-float32": "Not equal to tolerance",
    "positions_out_of_range": "elements 1, 5, 900 and -900 of five",
    "gradients/AvgPool.1": "finite differences",
    "lifecycle/tensors_keep_their_values": "the tensor changed with its source",
    "lifecycle/memory_is_counted": "grew by 0",
    "lifecycle/memory_limit_is_kept": "memory().limit is None",
}


@pytest.fixture(scope="module")
def faulty_project(tmp_path_factory):
    """The repository of a backend that has defects."""
    folder = tmp_path_factory.mktemp("careless")
    (folder / "conftest.py").write_text(FAULTY_BACKEND_SOURCE)
    (folder / "test_conformance.py").write_text("from plugrad.testing.suite import *\n")
    (folder / "pytest.ini").write_text("[pytest]\nplugrad_backend = careless\n")
    return folder


@pytest.fixture(scope="module")
def kit_report(faulty_project):
    names = [
        "lifecycle",
        "positions",
        "reopening",
        "devices",
        *(f"{kernel}." for kernel in (*RIGHT_KERNELS, *WRONG_KERNELS)),
    ]
    code, printed, report = run_pytest(faulty_project, "--tb=no", "-k", " or ".join(names))
    assert code == 1, printed
    return report


@pytest.mark.parametrize(("name", "message"), EXPECTED_FAILURES.items(), ids=EXPECTED_FAILURES)
def test_mistake_is_caught(kit_report, name, message):
    assert message in kit_report["failures"][name]


def test_other_kernels_pass(kit_report):
    right = {name for name, counts in kit_report["kernels"].items() if not counts["failed"]}
    assert set(RIGHT_KERNELS) <= right
    assert not set(WRONG_KERNELS) & right


def test_all_levels_are_counted(kit_report):
    totals = [sum(kit_report["levels"][level].values()) for level in KIT_LEVELS]
    assert sum(totals) == sum(kit_report["total"].values()) > 500
    assert min(totals[:5]) > 10
    assert totals[5:7] == [3, 4]
    assert min(totals[7:]) > 10


# --- devices --------------------------------------------------------------------------------------

# A backend with two devices, which counts and limits what the functions of each return.
TWO_DEVICES_SOURCE = '''
"""A backend with two devices."""

import weakref

import numpy as np
import plugrad
from plugrad.errors import OutOfMemory
from plugrad.extend import (
    Backend, DeviceInfo, KernelTable, Memory, Probe, bool_, complex64, float32, float64, int32
)
from plugrad.kernels import binary, unary

pytest_plugins = ["plugrad.testing.plugin"]


class Counted(np.ndarray):
    pass


class Pair(Backend):
    name = "pair"
    limit = None
    used = peak = buffers = 0

    def probe(self):
        return Probe(True, "", (DeviceInfo("left", "a toy"), DeviceInfo("right", "another")))

    def open(self, device):
        self.device = device or "left"
        return TABLE

    def dtypes(self):
        return frozenset({bool_, complex64, float32, float64, int32})

    def kept(self, array):
        array = np.asarray(array)
        if self.limit is not None and self.used + array.nbytes > self.limit:
            raise OutOfMemory(f"no room for {array.nbytes} bytes on {self.label}")
        array = array.copy().view(Counted)
        self.used += array.nbytes
        self.buffers += 1
        self.peak = max(self.peak, self.used)
        weakref.finalize(array, self.forget, array.nbytes)
        return array

    def forget(self, size):
        self.used -= size
        self.buffers -= 1

    def from_numpy(self, array):
        return self.kept(array)

    def to_numpy(self, array):
        return np.array(array, copy=True, subok=False)

    def synchronize(self):
        pass

    def memory(self):
        return Memory(self.buffers, self.used, self.peak, self.limit)

    def set_memory_limit(self, limit):
        self.limit = limit

    def close(self):
        pass


def table_of(device):
    table = KernelTable("pair")
    table.update(
        {
            binary.add: lambda a, b: device.kept(np.add(a, b)),
            binary.multiply: lambda a, b: device.kept(np.multiply(a, b)),
            unary.exp: lambda x: device.kept(np.exp(x)),
        }
    )
    return table


plugrad.register_backend("pair", Pair)
'''
TABLE_PER_DEVICE = "table_of(self)"
"""What `open` returns: functions of the device that is opened."""
TABLE_OF_FIRST_DEVICE = "TABLES or TABLES.extend(table_of(self)) or TABLES"
"""Functions of the device that was opened first, whatever is opened."""


def run_on_two_devices(folder, table):
    (folder / "conftest.py").write_text(
        TWO_DEVICES_SOURCE.replace("TABLE\n", f"{table}\n") + "TABLES = []\n"
    )
    (folder / "test_conformance.py").write_text("from plugrad.testing.suite import *\n")
    (folder / "pytest.ini").write_text("[pytest]\nplugrad_backend = pair\n")
    code, printed, _ = run_pytest(folder, "-k", "lifecycle or reopening or devices", "--tb=short")
    report = json.loads((folder / "report.json").read_text("utf-8"))["backends"]["pair"]
    return code, printed, report


def test_kernels_of_an_opened_device_pass(tmp_path):
    code, printed, report = run_on_two_devices(tmp_path, TABLE_PER_DEVICE)
    assert code == 0, printed
    assert report["levels"]["reopening"]["passed"] == 3
    assert report["levels"]["devices"]["passed"] == 4


def test_kernels_of_the_device_that_was_opened_first_are_caught(tmp_path):
    code, printed, report = run_on_two_devices(tmp_path, TABLE_OF_FIRST_DEVICE)
    assert code == 1, printed
    failures = report["failures"]
    assert set(failures) == {
        "reopening/kernels_work_on_a_reopened_backend",
        "reopening/memory_limit_holds_on_a_reopened_backend",
        "devices/kernels_run_on_the_device_they_belong_to",
        "devices/memory_limit_is_that_of_one_device",
    }
    assert "grew by 0" in failures["reopening/kernels_work_on_a_reopened_backend"]
    assert "exceeded the limit" in failures["devices/memory_limit_is_that_of_one_device"]


# --- excuses --------------------------------------------------------------------------------------


def run_with_expected_failures(careless, text, *arguments):
    (careless / "plugrad-xfail.toml").write_text(text)
    try:
        return run_pytest(careless, *arguments)
    finally:
        (careless / "plugrad-xfail.toml").unlink()


def test_excused_tests_must_fail(faulty_project):
    text = '[careless]\n"*/Exp*" = "exponentials of a lookup table"\n'
    code, printed, report = run_with_expected_failures(
        faulty_project, text, "-k", "Exp and float32 and not Expm1 and core"
    )
    assert code == 1  # ExpandDims passes
    assert "[XPASS(strict)] exponentials of a lookup table" in printed
    assert report["xfailures"] == {"core/Exp.1-float32": "exponentials of a lookup table"}
    code, printed, report = run_with_expected_failures(
        faulty_project, text.replace("Exp*", "Exp.*"), "-k", "Exp. and float32 and core"
    )
    assert code == 0, printed
    assert report["kernels"]["Exp"] == {"passed": 0, "failed": 0, "skipped": 0, "xfailed": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[careless]\n"core/Expo*" = "no such"', "no test is called [careless] 'core/Expo*'"),
        ('[careless]\n"core/Exp.1-float32" = ""', "must have a reason"),
        ('"core/Exp.1-float32" = "because"', "must be a table"),
        ("[careless", "plugrad-xfail.toml"),
    ],
)
def test_wrong_xfail_file_is_an_error(faulty_project, text, message):
    code, printed, _ = run_with_expected_failures(faulty_project, text, "-k", "Exp.")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert message in printed


def test_entries_for_other_backends_do_not_count(faulty_project):
    code, printed, _ = run_with_expected_failures(
        faulty_project, '[other]\n"core/nothing" = "?"\n', "-k", "Cos.1-float32"
    )
    assert code == 0, printed


def test_stars_stand_for_anything():
    excuses = XfailEntries({"acme": {"full/Conv2D.*[a]*": "one", "*/Exp*": "two"}})
    assert excuses.reason("acme", "full/Conv2D.3[a]") == "one"
    assert excuses.reason("acme", "full/Conv2D.3") is None
    assert excuses.reason("other", "core/Exp.1") is None
    assert excuses.unused({"acme"}) == ["[acme] '*/Exp*'"]


# --- options --------------------------------------------------------------------------------------


def test_levels_build_on_each_other(tmp_path):
    _, printed, report = run_conformance_kit(tmp_path, "cpu", level=1)
    assert report["levels"] == KIT_LEVELS[:1]
    assert list(report["backends"]["cpu"]["levels"]) == KIT_LEVELS[:1]
    assert "deselected" in printed


def test_cases_that_no_option_selects_make_no_tests(tmp_path):
    deselected, reports = [], []
    # Of a negation, the kit does not know what it selects before pytest has made all tests.
    for choice in ("Relu6 or Exp.", "not not (Relu6 or Exp.)"):
        code, printed, report = run_conformance_kit(
            tmp_path, "cpu", level="core", arguments=["-k", choice]
        )
        assert code == 0, printed
        deselected.append(int(re.search("([0-9]+) deselected", printed)[1]))
        reports.append(report)
    assert deselected[0] < 50 < 2000 < deselected[1]
    assert reports[0] == reports[1]
    assert reports[0]["backends"]["cpu"]["kernels"]["Relu6"]["passed"]


def test_several_backends_are_tested_at_once(tmp_path):
    pytest.importorskip("plugrad_wasm")
    code, printed, report = run_conformance_kit(
        tmp_path, "cpu,wasm", arguments=["-k", "Sigmoid"], badge="badge.svg"
    )
    assert code == 0, printed
    assert list(report["backends"]) == ["cpu", "wasm"]
    assert "plugrad cpu, wasm" in (tmp_path / "badge.svg").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("no_such", {}, "no installed plugin brings a backend called 'no_such'"),
        ("cpu", {"level": "everything"}, "must be 1 to 9 or one of lifecycle, core, "),
        ("cpu", {"xfail": "no-such-file.toml"}, "no-such-file.toml"),
        ("", {}, "say which backend to test"),
    ],
)
def test_wrong_option_is_a_usage_error(tmp_path, name, options, message):
    code, printed, _ = run_conformance_kit(tmp_path, name, **options)
    assert code in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERRUPTED)
    assert message in printed


def test_pytest_is_needed_by_the_kit_only(tmp_path):
    done = run_outside_repository(
        tmp_path,
        "import sys, plugrad\n"
        "assert not [m for m in sys.modules if m.startswith('plugrad.testing')]\n"
        "import plugrad.testing\n"
        "assert 'pytest' not in sys.modules\n"
        "sys.modules['pytest'] = None\n"
        "plugrad.testing.run_conformance('cpu')",
    )
    assert 'pip install "plugrad-core[testing]"' in done.stderr


# --- badges ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcomes", "text", "colour"),
    [
        ((), "not run", "#6b6b6b"),
        (("passed",), "1 kernels pass", "#1a7f37"),
        (("passed", "skipped"), "1 kernels pass", "#1a7f37"),
        (("passed", "failed"), "1 failed", "#b3261e"),
        (("xfailed",), "0 kernels pass, 1 excused", "#8a6100"),
    ],
)
def test_badge_summarizes_the_conformance_run(outcomes, text, colour):
    report = reports.KitReport()
    for outcome in outcomes:
        report.results_of_backend("a<b").add("core", "Exp", "core/Exp.1", outcome, "because")
    drawn = reports.make_badge(report.as_dict())
    picture = ET.fromstring(drawn)
    texts = [t.text for t in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["plugrad a<b" if outcomes else "plugrad", text]
    assert colour in drawn
