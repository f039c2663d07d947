"""Every kernel, dtype, backend and variant of native code: the properties of `invariances`."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager

import pytest

import plugrad
from conftest import chosen
from plugrad.discovery.loading import open_backend
from plugrad.discovery.selection import active_backend
from plugrad.errors import UnsupportedDtype
from plugrad.registry.kernels import set_tables
from plugrad.testing.checks import NotClaimed, require_dtypes, require_kernel
from plugrad_cpu.threads import thread_pool
from properties import invariances
from properties.forced_variants import available_variants, forced_variant

VARIANT = "cpu-"


def pytest_generate_tests(metafunc):
    if "machine" not in metafunc.fixturenames:
        return
    names = chosen(metafunc.config)
    if "cpu" in names:
        names = [*names, *(f"{VARIANT}{name}" for name in available_variants())]
    metafunc.parametrize("machine", names, indirect=True, scope="module")


@contextmanager
def running(name):
    """Make a backend the active one; `cpu` is without packs, and `cpu-v3` with a variant alone."""
    backend, _, variant = name.partition("-")
    with ExitStack() as stack:
        device = open_backend(backend)
        if backend == "cpu":
            tables = device.kernels
            own = list(tables)[-1]
            forced = {"forced": forced_variant(variant).configs} if variant else {}
            stack.callback(set_tables, device, tables)
            set_tables(device, {**forced, own: tables[own]})
        stack.enter_context(plugrad.use(backend))
        stack.enter_context(plugrad.config.override("unsupported_dtype", "error"))
        stack.enter_context(plugrad.config.override("fallback", "error"))
        yield name


@pytest.fixture(scope="module")
def machine(request):
    with running(request.param):
        yield request.param


def wrong_in(rows, holds):
    """Return what is wrong, a line for each kernel and dtype."""
    device = active_backend()
    found = []
    for row in rows:
        for dtype in row.runs_on:
            try:
                require_kernel(row.kernel, device)
                require_dtypes(row.needs(dtype), device)
                wrong = holds(row, dtype)
            except (NotClaimed, UnsupportedDtype):
                continue
            if wrong:
                found.append(f"{row.kernel.name} {dict(row.attrs) or ''} of {dtype}: {wrong}")
    return found


def thread_setter(machine, monkeypatch):
    """Let little work be shared; return the function that sets the number of threads, None if there is one only."""
    if machine == "wasm":
        from plugrad_wasm import declare

        for module in [m for name, m in sys.modules.items() if name.startswith("plugrad_wasm.")]:
            for name, steps in vars(declare).items():
                if isinstance(steps, declare.PartSteps) and hasattr(module, name):
                    monkeypatch.setattr(module, name, declare.PartSteps(64, 1 << 20))
            if hasattr(module, "RELEASE_LOCK_MIN_ELEMENTS"):
                monkeypatch.setattr(module, "RELEASE_LOCK_MIN_ELEMENTS", 10)
        store = active_backend().linear.store
        workers = store.perform.__self__
        monkeypatch.setattr(workers, "threads", workers.threads)
        monkeypatch.setattr(store, "threads", store.threads)

        def set_threads(count):
            store.threads = workers.threads = count

        return set_threads
    if machine.startswith(VARIANT):
        for module in forced_variant(machine.removeprefix(VARIANT)).modules:
            if hasattr(module, "PARALLEL_MIN_WORK"):
                monkeypatch.setattr(module, "PARALLEL_MIN_WORK", 64)
        monkeypatch.setattr(thread_pool, "count", 1)
        return lambda count: setattr(thread_pool, "count", count)
    return None


CASES = [
    pytest.param(name, family, id=f"{name}-{family}")
    for name, prop in invariances.PROPERTIES.items()
    for family in prop.cases()
]


@pytest.mark.parametrize(("name", "family"), CASES)
def test_invariance(machine, name, family, monkeypatch):
    prop = invariances.PROPERTIES[name]
    if name == "threads_equal_one":
        set_count = thread_setter(machine, monkeypatch)
        if set_count is None:
            pytest.skip(f"{machine} has no threads of its own")
        monkeypatch.setattr(invariances.threads, "set_count", set_count)
    wrong = wrong_in(prop.cases()[family], prop.find_violation)
    assert not wrong, "\n".join(wrong)
