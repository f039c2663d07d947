"""Every kernel, dtype, backend and variant of native code: the properties of `invariances`."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from functools import partial

import numpy as np
import pytest

import plugrad
from conftest import selected_backends
from plugrad.discovery.loading import open_backend
from plugrad.discovery.selection import active_backend
from plugrad.errors import UnsupportedDtype
from plugrad.kernels import binary, indexing, normalization, reduction, unary
from plugrad.registry.kernels import set_kernel_tables
from plugrad.tensor import backend as stored
from plugrad.testing.checks import NotClaimed, require_dtypes, require_kernel
from plugrad_cpu.threads import thread_pool
from properties import invariances
from properties.forced_variants import available_variants, forced_variant

VARIANT_PREFIX = "cpu-"
MACHINE_WITH_PACKS = "cpu-with-packs"
"""What users have: NumPy computes small arrays, and C large ones."""
FORCED_VARIANT_PACK = "a forced variant"
"""The owner of its kernels."""


def pytest_generate_tests(metafunc):
    if "machine" not in metafunc.fixturenames:
        return
    names = selected_backends(metafunc.config)
    if "cpu" in names:
        names = [
            *names,
            MACHINE_WITH_PACKS,
            *(f"{VARIANT_PREFIX}{name}" for name in available_variants()),
        ]
    cases = [
        pytest.param(machine, name, family, id=f"{machine}-{name}-{family}")
        for machine in names
        for name, prop in invariances.PROPERTIES.items()
        if is_relevant(name, machine)
        for family in prop.cases()
    ]
    metafunc.parametrize(("machine", "name", "family"), cases, indirect=["machine"])


def is_relevant(name, machine):
    """Whether a property is tested on a machine; those of threads need several."""
    if machine == MACHINE_WITH_PACKS:
        return name == "an_array_equals_its_pieces"
    return name != "threads_equal_one" or machine not in ("cpu", "webgpu")


@contextmanager
def use_machine(name):
    """Make a backend the active one; "cpu" has no packs, and "cpu-v3" only one variant of plugrad-native."""
    backend, _, variant = name.partition("-")
    with ExitStack() as stack:
        device = open_backend(backend)
        if backend == "cpu" and name != MACHINE_WITH_PACKS:
            tables = device.kernels
            own = list(tables)[-1]
            forced = {FORCED_VARIANT_PACK: forced_variant(variant).configs} if variant else {}
            stack.callback(set_kernel_tables, device, tables)
            set_kernel_tables(device, {**forced, own: tables[own]})
        stack.enter_context(plugrad.use(backend))
        stack.enter_context(plugrad.config.override("unsupported_dtype", "error"))
        stack.enter_context(plugrad.config.override("fallback", "error"))
        yield name


@pytest.fixture(scope="module")
def activate_machine():
    """Return a function that makes a machine the active one until it is called with another."""
    with ExitStack() as stack:
        active = None

        def activate(name):
            nonlocal active
            if name != active:
                active = None
                stack.close()
                stack.enter_context(use_machine(name))
                active = name

        yield activate


@pytest.fixture
def machine(request, activate_machine):
    # Were this fixture itself the module's, pytest would order tests by family, and each would switch kernels.
    activate_machine(request.param)
    return request.param


WEBGPU_DTYPES = ("float32", "int32", "int64", "bool", "complex64")
"""Dtypes of webgpu that differ in their shaders: others are computed as one of these."""


def is_worth_trying(row, dtype):
    """Whether an implementation is specific to a machine, or to a dtype on it."""
    device = active_backend()
    if device.name == "webgpu":
        return dtype in WEBGPU_DTYPES
    forced = device.kernels.get(FORCED_VARIANT_PACK)
    config = forced and forced.get(row.kernel.name)
    return forced is None or bool(config and (config.dtypes is None or dtype in config.dtypes))


def find_problems(rows, holds):
    """Return the violations of a property, a line for each kernel and dtype."""
    device = active_backend()
    found = []
    for row in rows:
        for dtype in filter(partial(is_worth_trying, row), row.tested_dtypes):
            try:
                require_kernel(row.kernel, device)
                require_dtypes(row.required_dtypes(dtype), device)
                wrong = holds(row, dtype)
            except (NotClaimed, UnsupportedDtype):
                continue
            if wrong:
                found.append(f"{row.kernel.name} {dict(row.attrs) or ''} of {dtype}: {wrong}")
    return found


def thread_setter(machine, monkeypatch):
    """Let even small work be divided; return the function that sets the number of threads."""
    if machine == "wasm":
        from plugrad_wasm import declare

        for module in [m for name, m in sys.modules.items() if name.startswith("plugrad_wasm.")]:
            for name, steps in vars(declare).items():
                if isinstance(steps, declare.PartStepLimits) and hasattr(module, name):
                    monkeypatch.setattr(module, name, declare.PartStepLimits(64, 1 << 20))
            if hasattr(module, "RELEASE_GIL_MIN_ELEMENTS"):
                monkeypatch.setattr(module, "RELEASE_GIL_MIN_ELEMENTS", 10)
        store = active_backend().linear_memory.store
        workers = store.run_in_threads.__self__
        monkeypatch.setattr(workers, "threads", workers.threads)
        monkeypatch.setattr(store, "threads", store.threads)

        def set_threads(count):
            store.threads = workers.threads = count

        return set_threads
    monkeypatch.setattr(thread_pool, "part_min_work", 32)
    monkeypatch.setattr(thread_pool, "count", 1)
    backend = active_backend()  # whose functions know from how many elements on threads share them
    monkeypatch.setattr(backend, "functions", type(backend.functions)(backend))
    return lambda count: setattr(thread_pool, "count", count)


def test_invariance(machine, name, family, monkeypatch):
    prop = invariances.PROPERTIES[name]
    if name == "threads_equal_one":
        set_count = thread_setter(machine, monkeypatch)
        monkeypatch.setattr(invariances.threads, "set_count", set_count)
    wrong = find_problems(prop.cases()[family], prop.find_violation)
    assert not wrong, "\n".join(wrong)


# --- that each property catches a defect --------------------------------------------------------


def loses_signs(a, b):
    """Return a / b with -0 in b replaced by 0 where b is broadcast."""
    return np.divide(a, b if b.shape == a.shape else b + a.dtype.type(0))


def exp_without_one_element(x):
    """Return exp(x) with one element missing after whole vectors of eight."""
    y = np.exp(x)
    if x.size % 8 == 5:
        y.reshape(-1)[-1] = 0
    return y


def reads_memory_in_order(x, *, axis, keep_dims):
    """Return sums of the elements in memory order instead of axis order."""
    return np.add.reduce(x.ravel("K").reshape(x.shape), axis, keepdims=keep_dims)


def confuses_items(logits, *, dim):
    """Return a softmax in which rows after the eighth are mixed up."""
    y = np.exp(logits - logits.max(dim, keepdims=True))
    y /= y.sum(dim, keepdims=True)
    y[8:] = y[7:-1]
    return y


def knows_int32(x, indices, *, axis, batch_dims):
    """Return elements at indices, treating indices of all dtypes but int32 as 0."""
    places = indices if indices.dtype == np.int32 else np.zeros_like(indices)
    return x.take(places, axis, mode="clip")


def adds_in_parts(x):
    """Return x^2, rounded differently with more threads."""
    return np.square(x) * x.dtype.type(1 + (thread_pool.count > 1) * 2**-10)


DEFECTS = {
    "broadcast_equals_materialized": (binary.divide, loses_signs),
    "an_array_equals_its_pieces": (unary.exp, exp_without_one_element),
    "views_equal_contiguous": (reduction.sum, reads_memory_in_order),
    "a_repeated_batch_equals_one": (normalization.softmax, confuses_items),
    "positions_equal_int64_positions": (indexing.gather, knows_int32),
    "threads_equal_one": (unary.square, adds_in_parts),
}


@pytest.mark.parametrize(("name", "kernel", "defective"), [(n, *d) for n, d in DEFECTS.items()])
def test_a_defect_is_caught(name, kernel, defective, monkeypatch):
    set_count = partial(monkeypatch.setattr, thread_pool, "count")
    monkeypatch.setattr(invariances.threads, "set_count", set_count)
    prop = invariances.PROPERTIES[name]
    rows = [row for row in prop.cases()[kernel.family] if row.kernel is kernel]
    with use_machine("cpu"), np.errstate(all="ignore"):
        assert not find_problems(rows, prop.find_violation)
        with plugrad.override_kernel(kernel.name, "cpu", defective):
            wrong = find_problems(rows, prop.find_violation)
    assert any(kernel.name in line for line in wrong)


def test_invariance_check_finds_odd_bools(monkeypatch):
    monkeypatch.setattr(stored, "has_odd_bools", lambda values: False)
    prop = invariances.PROPERTIES["bytes_of_true_do_not_matter"]
    with use_machine("cpu"):
        assert find_problems(prop.cases()["movement"], prop.find_violation)
