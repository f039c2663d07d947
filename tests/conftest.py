"""Every test that takes `backend` runs once on each installed backend.

    pytest --backend cpu,wasm                        only on these
    pytest --driver swiftshader --backend webgpu     on another Vulkan driver: a name, or the path of its JSON file
    pytest --schedules gpu --backend webgpu          what webgpu runs on GPUs, on a software device
    pytest --tries 100                               endings and interrupts, which fail by chance
    pytest -k relu6 --row float16                    only the rows of a table with these letters in their ids
    PLUGRAD_EXPECT_BACKENDS=cpu,wasm,webgpu pytest   fail if one of these is missing or incomplete

The tests of families and records that a kernel pack replaces run a second time without packs.

Without the variable, a backend that cannot run here skips its tests with the reason, and so does a
kernel that a backend does not have.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from _pytest.runner import runtestprotocol

import plugrad
from consistency.committed import committed_kernel_table
from plugins.webgpu import drivers
from plugrad.discovery.loading import open_backend
from plugrad.discovery.state import state
from plugrad.errors import BackendNotFound, BackendUnavailable, KernelNotFound, PluginConflict
from plugrad.registry.kernels import set_kernel_tables
from table_rows import (
    RNG_SEED,
    deselect_tests_if_no_row_is_chosen,
    parametrize_by_rows,
    run_rows,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from plugrad.tensor.backend import Backend, KernelTables

UNAVAILABLE_ERRORS = (BackendNotFound, BackendUnavailable, PluginConflict)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--backend", default="", help="run on these backends only, such as cpu,wasm")
    parser.addoption("--driver", default="", help="the Vulkan driver: swiftshader, or a JSON file")
    parser.addoption(
        "--schedules", choices=["own", "gpu"], default="own", help="of webgpu's shaders"
    )
    parser.addoption("--row", default="", help="run only rows with these letters in their ids")
    parser.addoption("--tries", default=1, type=int, help="how often to try what fails by chance")


# Taken out of the environment, where plugrad would ask whether it is a misspelt setting.
REQUIRED_BACKENDS = os.environ.pop("PLUGRAD_EXPECT_BACKENDS", "")


def split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def selected_backends(config: pytest.Config) -> list[str]:
    """Return the installed backends that ``--backend`` selects."""
    installed = list(dict.fromkeys(candidate.name for candidate in plugrad.backends()))
    return split_names(config.getoption("--backend")) or installed


def required_backends(config: pytest.Config) -> list[str]:
    """Return the backends that must be available and complete."""
    only = split_names(config.getoption("--backend"))
    return [name for name in split_names(REQUIRED_BACKENDS) if not only or name in only]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests with the garbage collector switched off: it took a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before a worker of pytest-xdist says which tests it has
def pytest_collection_finish(session: pytest.Session) -> None:
    """Exclude the collected tests from garbage collections, which otherwise take a second each.

    Tests make many objects that refer to others, such as tapes and shaders, and little garbage in circles: looking
    for it after every 700 objects took 5 to 10 % of the time on webgpu.
    """
    deselect_tests_if_no_row_is_chosen(session)
    freeze_live_objects()
    gc.set_threshold(10_000, *gc.get_threshold()[1:])
    session.config.stash[RESIDENT_BYTES_KEY] = resident_bytes()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Report only the outcome of a test from a worker; set-up and teardown are reported only if they fail.

    To send and to receive six messages for each test took as long as to run the median one.
    """
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Exclude the objects that a module leaves for good, such as compiled shaders, from garbage collections too.

    Late tests that collect garbage again and again took a minute each, among millions of objects.
    """
    if nextitem is not None and nextitem.path != item.path:
        has_grown = resident_bytes() > item.config.stash[RESIDENT_BYTES_KEY] + MAX_MEMORY_GROWTH
        if has_grown:
            close_webgpu()
        freeze_live_objects()
        if has_grown:  # what is free lies between what stays
            getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)(0)
            item.config.stash[RESIDENT_BYTES_KEY] = resident_bytes()


RESIDENT_BYTES_KEY = pytest.StashKey[int]()
"""The bytes that the process took when the tests were collected, or after webgpu's device was closed."""
MAX_MEMORY_GROWTH = 1 << 30
"""By how many bytes the process may grow until a device gives back its shaders, of half a megabyte each.

Beyond a fixed size, which what stays reaches as well, the device was closed after every module: each time, the walk
through all objects took a second, and shaders were compiled again.
"""


def resident_bytes() -> int:
    """Return the resident memory of this process, or 0 on systems other than Linux."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text("ascii").split()[1]) * mmap.PAGESIZE if statm.exists() else 0


def close_webgpu() -> None:
    """Close the webgpu device; the next test opens it again.

    What is collected next includes the device, which refers to itself, and all that is out of the collector's
    sight otherwise: one such walk takes seconds.
    """
    for device in list(state.opened.values()):
        if device.name == "webgpu":
            plugrad.close_backend(device)
    gc.unfreeze()


def freeze_live_objects() -> None:
    gc.collect()
    gc.freeze()


class ReloadingMonkeyPatch(pytest.MonkeyPatch):
    """A MonkeyPatch after whose changes of the environment plugrad reads its settings again.

    It reads nothing again where a test changes attributes only: to read pyproject.toml takes longer than most tests.
    """

    has_changed_settings = False
    """Whether the environment or the working directory differs from that before the test."""

    def reread_settings(self) -> None:
        self.has_changed_settings = True
        plugrad.config.reread()

    def setenv(self, name: str, value: str, prepend: str | None = None) -> None:
        super().setenv(name, value, prepend)
        self.reread_settings()

    def delenv(self, name: str, raising: bool = True) -> None:
        super().delenv(name, raising)
        self.reread_settings()

    def chdir(self, path: str | os.PathLike[str]) -> None:
        super().chdir(path)
        self.reread_settings()

    def undo(self) -> None:
        super().undo()
        if self.has_changed_settings:
            self.has_changed_settings = False
            plugrad.config.reread()


@pytest.fixture
def monkeypatch() -> Iterator[pytest.MonkeyPatch]:
    with ReloadingMonkeyPatch.context() as patch:
        yield patch


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Stop at once if a required backend, or one that is selected by name, cannot run.

    Last, because pytest's faulthandler must have its signal handlers before wasmtime has: a trap is
    a signal, and the handler that came last sees it first.
    """
    if config.getoption("--driver"):
        choose_driver(config.getoption("--driver"))
    if config.getoption("--schedules") == "gpu":
        force_gpu_shaders()
    if "webgpu" in selected_backends(config):
        exclude_gpus_from_automatic_choice()
        # Else NumPy would compute small arrays, and most tests are about shaders. Those of
        # tests/plugins/webgpu/test_hosting.py are about small arrays.
        os.environ.setdefault("PLUGRAD_WEBGPU_HOST_ELEMENTS", "0")
        plugrad.config.reread()
    for name in dict.fromkeys(
        (*split_names(config.getoption("--backend")), *required_backends(config))
    ):
        try:
            open_backend(name)
        except UNAVAILABLE_ERRORS as error:
            raise pytest.UsageError(f"backend {name!r} is expected here: {error}") from error


def choose_driver(driver: str) -> None:
    """Restrict the webgpu devices to those of one Vulkan driver."""
    try:
        drivers.use_driver(driver)
    except FileNotFoundError as error:
        raise pytest.UsageError(str(error)) from error


def force_gpu_shaders() -> None:
    """Make webgpu run the shaders for GPUs on any device."""
    from plugrad_webgpu.device import (
        adapters,
    )  # it imports wgpu, which a run without webgpu does not need

    make = adapters.Device
    adapters.Device = lambda *args, is_software: make(*args, is_software=False)


def exclude_gpus_from_automatic_choice() -> None:
    """Exclude GPUs from the automatic choice: most tests expect the choice of a machine without one, and float64."""
    with suppress(ImportError):
        from plugrad_webgpu import entry

        describe = entry.describe_adapter
        entry.describe_adapter = lambda *args: describe(*args)._replace(is_software=True)


WITHOUT_PACKS_SUFFIX = "-without-packs"
"""Behind the name of a backend: its own kernels run, also those that packs replace."""
NATIVE_KERNELS_FOLDER = (
    Path(__file__).parents[1] / "plugins" / "native" / "src" / "plugrad_native" / "kernels"
)
MODULES_RUN_WITHOUT_PACKS = {
    f"test_{path.stem}" for path in NATIVE_KERNELS_FOLDER.glob("[a-z]*.py")
} | {"test_kernels"}
"""The modules of tests of what the pack plugrad-native replaces: of its families, and of the records."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize_by_rows(metafunc)
    if "backend" in metafunc.fixturenames:
        names = selected_backends(metafunc.config)
        module = metafunc.module.__name__.rpartition(".")[2]
        if module in MODULES_RUN_WITHOUT_PACKS and "cpu" in names:
            names = [*names, f"cpu{WITHOUT_PACKS_SUFFIX}"]
        metafunc.parametrize("backend", names, indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Turn ``broken("webgpu", reason=…)`` into a strict xfail of the test on that backend.

    Of the tests of records, those of kernels that no pack replaces need not run without packs. What
    runs without packs comes last in each module: to switch packs takes longer than a test. Long tests
    come first of all: at the end, one worker would wait for another that has begun one.
    """
    modules: dict[str, int] = {}
    for item in items:
        modules.setdefault(item.path.as_posix(), len(modules))
    items[:] = sorted(
        (item for item in items if not repeats_packless_test(item)),
        key=lambda item: (
            item.get_closest_marker("long") is None,
            modules[item.path.as_posix()],
            runs_without_packs(item),
        ),
    )
    for item in items:
        for marker in item.iter_markers("broken"):
            if marker.args[0] == backend_of(item):
                item.add_marker(pytest.mark.xfail(reason=marker.kwargs["reason"], strict=True))


def runs_without_packs(item: pytest.Item) -> bool:
    """Whether a test runs the backend's own kernels instead of those of kernel packs."""
    return hasattr(item, "callspec") and str(item.callspec.params.get("backend")).endswith(
        WITHOUT_PACKS_SUFFIX
    )


def repeats_packless_test(item: pytest.Item) -> bool:
    """Whether a test without packs concerns a kernel that no pack replaces."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    if not runs_without_packs(item) or "kernel" not in params:
        return False
    packs = plugrad.plugins("kernels")
    return not any(params["kernel"] in pack.manifest.kernels for pack in packs)


def backend_of(item: pytest.Item) -> str | None:
    name = item.callspec.params.get("backend") if hasattr(item, "callspec") else None
    return name and name.removesuffix(WITHOUT_PACKS_SUFFIX)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    with skip_missing_kernels(pyfuncitem):
        return (yield)


@pytest.hookimpl(tryfirst=True, specname="pytest_pyfunc_call")
def pytest_call_on_rows(pyfuncitem: pytest.Function) -> bool | None:
    """Call a test that is marked with rows on each of them."""
    if pyfuncitem.get_closest_marker("rows") is None:
        return None

    def call(arguments: dict[str, Any]) -> None:
        with skip_missing_kernels(pyfuncitem):
            pyfuncitem.obj(**arguments)

    run_rows(pyfuncitem, call)
    return True


@contextmanager
def skip_missing_kernels(item: pytest.Function) -> Generator[None]:
    """Skip a test whose kernel the backend lacks, unless the page of kernels lists it."""
    try:
        yield
    except KernelNotFound as missing:
        name = backend_of(item)
        if name is None or not may_lack(name, missing.kernel_name, required_backends(item.config)):
            raise
        pytest.skip(str(missing))


def may_lack(backend: str, kernel: str, expected: list[str]) -> bool:
    """Whether a backend may lack a kernel; a required backend has all kernels that the page lists."""
    return backend not in expected or committed_kernel_table().get(kernel, {}).get(backend) == "–"


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a backend, which is active during the test and rejects unsupported dtypes."""
    name = request.param.removesuffix(WITHOUT_PACKS_SUFFIX)
    try:
        using = plugrad.use(name)
    except UNAVAILABLE_ERRORS as error:
        pytest.skip(str(error))
    with using, plugrad.config.override("unsupported_dtype", "error"):
        yield name


unloaded_packs: dict[str, tuple[Backend, KernelTables]] = {}
"""The devices whose packs are switched off at present, with all their kernels, by the name of their backend."""


def open_without_packs(name: str) -> Backend:
    """Return the device of a backend whose packs are to be unloaded; to open it loads them."""
    device = unloaded_packs[name][0] if name in unloaded_packs else None
    return open_backend(name) if device is None or device.is_closed else device


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Load or unload the packs of a backend if the previous test ran differently."""
    name = backend_of(item) if runs_without_packs(item) else None
    device = open_without_packs(name) if name else None
    for other, (known, tables) in list(unloaded_packs.items()):
        if known is not device:
            del unloaded_packs[other]
            if not known.is_closed:
                set_kernel_tables(known, tables)
    if name and device and name not in unloaded_packs:
        tables = device.kernels
        own = list(tables)[-1]
        set_kernel_tables(device, {own: tables[own]})
        unloaded_packs[name] = device, tables


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator of random numbers that are the same in every run and on every backend."""
    return np.random.default_rng(RNG_SEED)
