"""The pytest plugin of the conformance kit.

In the author's conftest.py stands ``pytest_plugins = ["plugrad.testing.plugin"]``, in a test module
``from plugrad.testing.suite import *``, and ``pytest --plugrad-backend=acme`` runs the suite.
"""

from __future__ import annotations

import gc
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from plugrad.discovery.listing import backends
from plugrad.discovery.selection import first_usable_backend, use
from plugrad.errors import KernelNotFound, PlugradError, UnsupportedDtype
from plugrad.interruptions import is_interruption
from plugrad.registry.kernels import get_kernel
from plugrad.settings.layers import config as settings
from plugrad.testing.checks import NotClaimed, require_kernel
from plugrad.testing.report import CONFORMANCE_LEVELS, FLOAT32_LEVEL, KitReport, Outcome, make_badge
from plugrad.testing.xfail import XFAIL_FILE, XfailEntries

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from plugrad.tensor.backend import Backend
    from plugrad.testing.rows import Row

SUITE_MODULE: Final = "plugrad.testing.suite"
"""The name of the module with the tests of the kit."""
KIT_SESSION_KEY: Final = pytest.StashKey["KitSession"]()
"""The key under which pytest's config holds the `KitSession`."""


class KitSession:
    """The state of one run of the kit: the backends, the xfail entries and the results."""

    def __init__(self, config: pytest.Config) -> None:
        """Read the options and open the backends."""
        settings.set("fallback", "error")  # what a backend lacks, no other may compute for it
        option = config.getoption
        self.levels = _conformance_levels_through(str(option("plugrad_level")))
        self.excuses = _read_xfail_entries(config.rootpath, option("plugrad_xfail"))
        self.report = KitReport(self.levels)
        self.report_file, self.badge_file = option("plugrad_report"), option("plugrad_badge")
        self.names: dict[str, str] = {}
        chosen = str(option("plugrad_backend") or config.getini("plugrad_backend") or "")
        for spec in filter(None, map(str.strip, chosen.split(","))):
            backend = _open_backend(spec)
            if backend.name in self.report.backends:
                raise pytest.UsageError(
                    f"--plugrad-backend={chosen}: test one device of {backend.name!r} at a time"
                )
            self.names[spec] = backend.name
            self.report.results_of_backend(backend.name).device = _describe_backend(backend)

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        """Keep the garbage collector from visiting collected tests, which would take a quarter of a run."""
        gc.disable()
        try:
            return (yield)
        finally:
            gc.enable()
            gc.collect()
            gc.freeze()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Count the rows of kernels that a backend lacks as skipped, without running them.

        Most rows of a small backend are such. A worker of pytest-xdist reports nothing but what it runs.
        """
        if hasattr(config, "workerinput"):
            return
        opened = {spec: _open_backend(spec) for spec in self.names}
        left_out: list[pytest.Item] = []
        for item in items:
            if (spec := get_backend_option(item)) and (
                reason := _reason_not_claimed(item, opened[spec])
            ):
                self.report.results_of_backend(opened[spec].name).add(
                    *_level_kernel_and_name(item), "skipped", reason
                )
                left_out.append(item)
        _deselect_items(config, items, left_out)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a result, including a failure before or after the test itself."""
        about: Any = next(
            (value for key, value in report.user_properties if key == "plugrad"), None
        )
        if about is None or (report.when != "call" and report.passed):
            return
        backend, level, kernel, name = about
        outcome: Outcome = report.outcome
        reason = ""
        if hasattr(report, "wasxfail"):
            outcome, reason = "xfailed", report.wasxfail
        elif report.skipped:
            reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else "")
            reason = reason.removeprefix("Skipped: ")
        elif report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = crash.message if crash else str(report.longrepr)
        self.report.results_of_backend(backend).add(level, kernel, name, outcome, reason)

    def pytest_report_teststatus(
        self, report: pytest.CollectReport | pytest.TestReport
    ) -> tuple[str, str, str] | None:
        """Print nothing for a skipped test unless pytest is verbose; the summary counts the reasons."""
        if not isinstance(report, pytest.TestReport) or hasattr(report, "wasxfail"):
            return None
        is_ours = any(name == "plugrad" for name, _ in report.user_properties)
        return ("skipped", "", "SKIPPED") if is_ours and report.skipped else None

    def pytest_sessionfinish(self) -> None:
        """Write the requested report files."""
        for backend, found in self.report.backends.items():
            found.versions = _collect_versions(backend)
        if self.report_file:
            Path(self.report_file).write_text(self.report.as_json(), "utf-8")
        if self.badge_file:
            Path(self.badge_file).write_text(make_badge(self.report.as_dict()), "utf-8")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the results of each backend."""
        lines = list(self.report.lines())
        if lines:
            terminalreporter.section("plugrad conformance")
        for line in lines:
            terminalreporter.line(line)


def _conformance_levels_through(last_level: str) -> tuple[str, ...]:
    """Return all levels up to `last_level`, a name or a number from 1; the level float32 needs only the first one.

    Raises:
        UsageError: there is no such level.
    """
    if last_level == FLOAT32_LEVEL:
        return CONFORMANCE_LEVELS[0], FLOAT32_LEVEL
    for number, level in enumerate(CONFORMANCE_LEVELS, 1):
        if last_level in (level, str(number)):
            return CONFORMANCE_LEVELS[:number]
    raise pytest.UsageError(
        f"--plugrad-level={last_level} must be 1 to {len(CONFORMANCE_LEVELS)} or one of "
        f"{', '.join((*CONFORMANCE_LEVELS, FLOAT32_LEVEL))}"
    )


def _read_xfail_entries(folder: Path, file: str | None) -> XfailEntries:
    """Return the entries of the xfail file: the given one, or the one in a folder.

    Raises:
        UsageError: it cannot be read or is no such file.
    """
    path = Path(file) if file else folder / XFAIL_FILE
    try:
        return XfailEntries.read(path, is_required=file is not None)
    except (OSError, ValueError, TypeError) as error:
        if is_interruption(error):
            raise
        raise pytest.UsageError(f"{path}: {error}") from error


def _open_backend(device_spec: str) -> Backend:
    """Return the backend that a device spec from the command line, such as ``"webgpu:1"``, selects.

    Raises:
        UsageError: it cannot be used here.
    """
    try:
        return first_usable_backend(device_spec, "--plugrad-backend")
    except PlugradError as error:
        raise pytest.UsageError(f"--plugrad-backend={device_spec}: {error}") from error


def _describe_backend(backend: Backend) -> str:
    """Return the description of the device on which a backend is open, or an empty string."""
    devices = {device.name: device.description for device in backend.devices()}
    return devices.get(backend.device, "")


def _collect_versions(backend_name: str) -> dict[str, str]:
    """Return the versions of the software on which the results of a backend depend."""
    from importlib_metadata import version

    active = [c for c in backends() if c.name == backend_name and c.status == "active"]
    mine = {c.distribution: c.version for c in active if c.version}
    return {"plugrad-core": version("plugrad-core"), "numpy": np.__version__, **mine}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("plugrad", "the conformance kit of plugrad")
    group.addoption("--plugrad-backend", help="the backends to test, such as acme or acme:1,other")
    group.addoption(
        "--plugrad-level",
        default=CONFORMANCE_LEVELS[-1],
        help=f"how far to go: 1 to {len(CONFORMANCE_LEVELS)}, or one of {', '.join(CONFORMANCE_LEVELS)} "
        f"(default: all of these); or {FLOAT32_LEVEL}",
    )
    group.addoption("--plugrad-report", metavar="FILE", help="write the results as JSON")
    group.addoption("--plugrad-badge", metavar="FILE", help="write the result as an SVG badge")
    group.addoption(
        "--plugrad-xfail",
        metavar="FILE",
        help=f"the tests that must fail, and why (default: {XFAIL_FILE} beside pytest's settings)",
    )
    parser.addini(
        "plugrad_backend", "the backends to test if --plugrad-backend names none", "string"
    )


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Read the options, open the backends and describe the marker.

    Last, because pytest's faulthandler must have its signal handlers before a library of a backend
    has its own.
    """
    config.addinivalue_line(
        "markers", "plugrad_level(name): the level of the conformance kit that a test belongs to"
    )
    config.stash[KIT_SESSION_KEY] = session = KitSession(config)
    config.pluginmanager.register(session, "plugrad conformance")


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test of the kit on each backend that was named."""
    if "plugrad_backend" in metafunc.fixturenames:
        session = metafunc.config.stash[KIT_SESSION_KEY]
        if not session.names:
            raise pytest.UsageError(
                "say which backend to test: pytest --plugrad-backend=NAME, or plugrad_backend in pytest's settings"
            )
        metafunc.parametrize("plugrad_backend", list(session.names), indirect=True, scope="session")
        if metafunc.function.__module__ == SUITE_MODULE and _may_leave_out_cases(session, metafunc):
            _leave_out_cases(session, metafunc)


def _may_leave_out_cases(session: KitSession, metafunc: pytest.Metafunc) -> bool:
    """Return whether unselected cases need not exist: no argument names a test, and no xfail entry can."""
    names_a_test = any("::" in argument for argument in metafunc.config.args)
    return not names_a_test and not session.excuses.unused(set(session.names.values()))


def _leave_out_cases(session: KitSession, metafunc: pytest.Metafunc) -> None:
    """Leave out the cases of a test that cannot be selected, except one.

    pytest makes a test of every case before it deselects most of them. For the tests of a few kernels, this took
    longer than all else.
    """
    definition = metafunc.definition
    is_in_level = get_level(definition) in session.levels
    words = _selecting_words(str(metafunc.config.getoption("keyword")))
    shared: list[str] = [
        *(node.name for node in definition.listchain()),
        *(marker.name for marker in definition.iter_markers()),
        *vars(metafunc.function),
    ]

    def can_be_selected(case: Any) -> bool:
        ids = [f"{definition.name}[{spec}-{case.id}]" for spec in session.names]
        names = [name.lower() for name in (*shared, *ids)]
        return is_in_level and (not words or any(w in name for w in words for name in names))

    for place, mark in enumerate(definition.own_markers):
        if mark.name == "parametrize":
            arguments, cases = mark.args
            kept = [case for case in cases if can_be_selected(case)]
            definition.own_markers[place] = pytest.mark.parametrize(
                arguments, kept or cases[:1]
            ).mark


def _selecting_words(expression: str) -> list[str]:
    """Return words of which each test that ``-k`` selects has one in its names; nothing if it need not have one."""
    words = [*re.findall(r"[^\s()]+", expression)]
    return [] if "not" in words else [w.lower() for w in words if w not in ("and", "or")]


@pytest.fixture(scope="session")
def plugrad_backend(request: pytest.FixtureRequest) -> str:
    """The argument of `plugrad.use` that selects the backend under test."""
    return request.param


@pytest.fixture
def opened_backend(plugrad_backend: str) -> Iterator[Backend]:
    """The backend to test, which is the active one while the test runs and must refuse dtypes that it lacks."""
    with use(plugrad_backend) as selection, settings.override("unsupported_dtype", "error"):
        yield selection.backend


def get_backend_option(item: pytest.Item) -> str:
    """Return the option that names a test's backend; an empty string for a test that is not the kit's."""
    spec = getattr(item, "callspec", None)
    return spec.params.get("plugrad_backend", "") if spec else ""


def get_backend_name(item: pytest.Item) -> str:
    """Return the name of the backend that a test of the kit runs on, or nothing."""
    return item.config.stash[KIT_SESSION_KEY].names.get(get_backend_option(item), "")


def get_level(item: pytest.Item) -> str:
    """Return the conformance level that a test says it belongs to."""
    marker = item.get_closest_marker("plugrad_level")
    return marker.args[0] if marker else CONFORMANCE_LEVELS[0]


def get_kernel_name(item: pytest.Item) -> str:
    """Return a test's name as in the xfail file and in reports: ``full/Conv2D.2-float32``."""
    function, _, rest = item.name.removeprefix("test_").partition("[")
    rest = rest.removesuffix("]").removeprefix(get_backend_option(item)).removeprefix("-")
    return f"{function}/{rest}" if rest else function


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect higher levels, and mark the entries of the xfail file as strict xfails."""
    session = config.stash[KIT_SESSION_KEY]
    left_out: list[pytest.Item] = []
    for item in items:
        if backend := get_backend_name(item):
            reason = session.excuses.reason(backend, get_kernel_name(item))
            if reason is not None:
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
            if get_level(item) not in session.levels:
                left_out.append(item)
    _deselect_items(config, items, left_out)
    is_about_all = not any("::" in argument for argument in config.args)
    unused = session.excuses.unused(set(session.names.values()))
    if unused and is_about_all and any(map(get_backend_name, items)):
        raise pytest.UsageError(f"{XFAIL_FILE}: no test is called {', '.join(unused)}")


def _deselect_items(
    config: pytest.Config, items: list[pytest.Item], deselected: list[pytest.Item]
) -> None:
    """Deselect some tests, and tell pytest."""
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        gone = set(deselected)
        items[:] = [item for item in items if item not in gone]


def _find_row(item: pytest.Item) -> Row | None:
    """Return the row of a test, if it has one."""
    spec = getattr(item, "callspec", None)
    return spec.params.get("row") if spec else None


def _level_kernel_and_name(item: pytest.Item) -> tuple[str, str, str]:
    """Return the level, the kernel and the name of a kit test."""
    row = _find_row(item)
    return get_level(item), row.kernel.name if row else "", get_kernel_name(item)


def _reason_not_claimed(item: pytest.Item, backend: Backend) -> str:
    """Return why a test is skipped: the backend lacks the kernel of its row, and the level does not require it."""
    row = _find_row(item)
    if row is None or get_level(item) == FLOAT32_LEVEL:
        return ""
    try:
        require_kernel(row.kernel, backend)
    except NotClaimed as reason:
        return str(reason)
    return ""


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Skip tests of kernels and dtypes that the backend does not claim to support."""
    backend = get_backend_name(pyfuncitem)
    if not backend:
        return (yield)
    try:
        with np.errstate(all="ignore"):
            return (yield)
    except NotClaimed as reason:
        pytest.skip(str(reason))
    except UnsupportedDtype as refusal:
        if not refusal.not_stored:
            raise
        pytest.skip(f"{backend} does not store {refusal.not_stored}, which this test needs")
    except KernelNotFound as missing:
        if not missing.kernel_name or get_kernel(missing.kernel_name, backend) is not None:
            raise
        pytest.skip(f"{backend} does not implement {missing.kernel_name}, which this test needs")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the backend, the level and the kernel to a test's report."""
    report = yield
    if backend := get_backend_name(item):
        report.user_properties.append(("plugrad", (backend, *_level_kernel_and_name(item))))
    return report
