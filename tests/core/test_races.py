"""Threads do not see each other's overrides, and of several concurrent registrations exactly one succeeds."""

import asyncio
import inspect
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

import numpy as np
import pytest

import plugrad
from plugrad import GradientConfig, KernelConfig
from plugrad.contract.kernel import KERNELS
from plugrad.discovery.loading import open_backend
from plugrad.discovery.state import state
from plugrad.errors import PlugradError
from plugrad.extend import (
    Spec,
    composite,
    gradient as gradient_rule,
    hold_safely,
    kernel,
    not_differentiable,
    register_batching,
    register_dtype,
)
from plugrad.kernels import unary
from plugrad.registry.batching import registered_batchings
from plugrad.registry.composites import registered_composites
from plugrad.settings import journal
from plugrad.types.dtype import as_dtype, remove_dtype

RACE_SECONDS = 0.3
THREAD_COUNT = 4


@pytest.fixture(autouse=True)
def short_switch_interval():
    """Make Python switch between threads a hundred times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    yield
    sys.setswitchinterval(before)


def run_concurrently(*functions):
    """Call functions repeatedly in a thread each, for a while; reraise an exception of any of them."""
    end = time.monotonic() + RACE_SECONDS
    start = threading.Barrier(len(functions))

    def repeat(function):
        start.wait()
        calls = 0
        while calls < 3 or time.monotonic() < end:
            function()
            calls += 1
        return calls

    with ThreadPoolExecutor(len(functions)) as pool:
        return [future.result() for future in [pool.submit(repeat, f) for f in functions]]


# --- blocks ---------------------------------------------------------------------------------------


def tanh_value():
    return plugrad.tanh(plugrad.asarray([0.5])).item()


def tanh_gradient():
    return plugrad.grad(plugrad.tanh)(plugrad.asarray(0.5)).item()


def mutation_is_an_error():
    """Whether a kernel that modifies its input raises an error."""
    try:
        plugrad.run_kernel("Changer", {"x": plugrad.asarray([0.5])})
    except PlugradError:
        return True
    return False


@pytest.fixture(autouse=True)
def input_mutating_kernel():
    """A kernel that modifies its input."""
    kernel("Changer", family="example")(same_spec_rule)
    plugrad.register_kernel(KernelConfig("Changer", "cpu", lambda x: np.add(x, 1, out=x)))


def infinity_is_an_error():
    """Whether an infinite result raises an error."""
    try:
        with np.errstate(divide="ignore"):
            plugrad.log(plugrad.asarray([0.0]))
    except PlugradError:
        return True
    return False


def count_tidy_tensors():
    """Return the number of tensors that the innermost `tidy` block tracks."""
    x = plugrad.asarray([1.0]) + 1.0
    with plugrad.tidy():
        y = x + 1.0
    return x.is_disposed, y.is_disposed


@contextmanager
def run_profiled():
    """Profile a block; the observation is that the profile exists only while the block runs."""
    with plugrad.profile() as measured:
        yield
    assert "Tanh" in [k.kernel for k in measured.kernels]


@dataclass
class BlockCase:
    """A context manager, and the observed value outside and inside of its block."""

    make: object
    observe: object
    value_inside: object


BLOCK_CASES = {
    "override_kernel": BlockCase(
        lambda: plugrad.override_kernel("Tanh", "cpu", lambda x: x * 0 + 7), tanh_value, 7.0
    ),
    "override_gradient": BlockCase(
        lambda: plugrad.override_gradient(unary.tanh, x=lambda dy: dy * 7), tanh_gradient, 7.0
    ),
    "override_gradient, explicit": BlockCase(
        lambda: plugrad.override_gradient(
            GradientConfig("Tanh", lambda dy, saved, attrs: {"x": dy * 7})
        ),
        tanh_gradient,
        7.0,
    ),
    "debug": BlockCase(lambda: plugrad.config.override("debug", True), mutation_is_an_error, True),
    "check_finite": BlockCase(
        lambda: plugrad.config.override("check_finite", True), infinity_is_an_error, True
    ),
    "fallback": BlockCase(
        lambda: plugrad.config.override("fallback", "silent"),
        lambda: plugrad.config.get("fallback"),
        "silent",
    ),
    "use": BlockCase(
        lambda: plugrad.use("fake_device"), lambda: plugrad.which().device, "fake_device:0"
    ),
    "use, transfer": BlockCase(
        lambda: plugrad.use("fake_device", transfer=True),
        lambda: plugrad.exp(plugrad.asarray(1.0, device="cpu")).device,
        "fake_device:0",
    ),
    "autocast": BlockCase(
        lambda: plugrad.autocast("float16"),
        lambda: plugrad.matmul(plugrad.ones((2, 2)), plugrad.ones((2, 2))).dtype.name,
        "float16",
    ),
    "tidy": BlockCase(plugrad.tidy, count_tidy_tensors, (False, True)),
    "profile": BlockCase(run_profiled, lambda: round(tanh_value(), 5), 0.46212),
}


@pytest.mark.parametrize("name", BLOCK_CASES)
def test_block_is_seen_in_its_own_thread_only(name, fake_backend_name):
    block = BLOCK_CASES[name]
    outside = block.observe()
    assert (outside != block.value_inside) == (name not in ("tidy", "profile"))

    def enter():
        with block.make():
            assert block.observe() == block.value_inside
        assert block.observe() == outside

    def stay_outside():
        assert block.observe() == outside

    run_concurrently(enter, enter, stay_outside, stay_outside)
    assert block.observe() == outside


@pytest.mark.parametrize("name", [n for n in BLOCK_CASES if n not in ("tidy", "profile")])
def test_blocks_end_in_any_order(name, fake_backend_name):
    block = BLOCK_CASES[name]
    outside = block.observe()
    for order in ((0, 1), (1, 0)):
        blocks = [block.make(), block.make()]
        for each in blocks:
            each.__enter__()
        for i in order:
            assert block.observe() == block.value_inside
            blocks[i].__exit__(None, None, None)
        assert block.observe() == outside


def test_the_last_override_counts_and_the_one_before_it_is_in_effect_again():
    with ExitStack() as stack:
        for rule in (lambda dy: dy * 2, lambda dy: dy * 3, lambda dy: dy * 4):
            stack.enter_context(plugrad.override_gradient(unary.tanh, x=rule))
        assert tanh_gradient() == 4
    first = plugrad.override_kernel("Tanh", "cpu", lambda x: x * 0 + 1)
    with first, plugrad.override_kernel("Tanh", "cpu", lambda x: x * 0 + 2):
        assert tanh_value() == 2
        with plugrad.override_kernel("Tanh", "cpu", lambda x: x * 0 + 3):
            assert tanh_value() == 3
        assert tanh_value() == 2
        assert plugrad.get_kernel("Tanh", "cpu").kernel_func(np.ones(1)) == 2


@pytest.mark.parametrize("name", [n for n in BLOCK_CASES if n not in ("tidy", "profile")])
def test_tasks_see_their_own_blocks(name, fake_backend_name):
    block = BLOCK_CASES[name]
    outside = block.observe()

    async def inside():
        with block.make():
            for _ in range(3):
                assert block.observe() == block.value_inside
                await asyncio.sleep(0)

    async def elsewhere():
        for _ in range(3):
            assert block.observe() == outside
            await asyncio.sleep(0)

    async def main():
        await asyncio.gather(inside(), elsewhere(), inside(), elsewhere())

    asyncio.run(main())


@pytest.mark.parametrize("name", [n for n in BLOCK_CASES if n not in ("tidy", "profile")])
def test_carry_context_carries_blocks(name, fake_backend_name):
    block = BLOCK_CASES[name]
    with ThreadPoolExecutor(2) as pool:
        with block.make():
            carried = plugrad.carry_context(block.observe)
        assert [f.result() for f in [pool.submit(carried) for _ in range(20)]] == [
            block.value_inside
        ] * 20


def test_generator_closed_in_another_context_leaves_no_override():
    def generator():
        with plugrad.override_kernel("Tanh", "cpu", lambda x: x * 0 + 7):
            yield tanh_value()

    right = tanh_value()
    suspended = generator()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(next, suspended).result() == 7
    assert tanh_value() == right
    suspended.close()
    assert tanh_value() == right


def test_registry_changes_while_other_threads_override():
    right, tanh = tanh_value(), plugrad.get_kernel("Tanh", "cpu").kernel_func

    def override():
        with plugrad.override_kernel("Tanh", "cpu", lambda x: x * 0 + 7):
            assert tanh_value() == 7

    def replace():
        plugrad.register_kernel(KernelConfig("Tanh", "cpu", lambda x: tanh(x)), replace=True)
        plugrad.unregister_kernel("Tanh", "cpu")

    run_concurrently(
        override, override, replace, lambda: np.testing.assert_equal(tanh_value(), right)
    )
    assert tanh_value() == right


def test_an_override_does_not_hide_what_is_registered_meanwhile():
    with plugrad.override_gradient(unary.tanh, x=lambda dy: dy * 7):
        plugrad.register_gradient(unary.tanh, x=lambda dy: dy * 3, replace=True)
        assert tanh_gradient() == 7
    assert tanh_gradient() == 3
    with plugrad.override_kernel("Tanh", "cpu", lambda x: x * 0 + 7):
        plugrad.register_kernel(KernelConfig("Tanh", "cpu", lambda x: x * 0 + 3), replace=True)
        assert tanh_value() == 7
        assert plugrad.unregister_kernel("Tanh", "cpu").kernel_func(np.ones(1)) == 3
        assert tanh_value() == 7


# --- registrations --------------------------------------------------------------------------------


def same_spec_rule(x: Spec) -> Spec:
    return x


def add_contract():
    kernel("RacingContract", family="example")(same_spec_rule)


def remove_contract():
    journal.put_table_entry(KERNELS, "RacingContract", journal.MISSING_VALUE, "contract")


def add_composite():
    composite(KERNELS["RacingBody"])(lambda x: x + x)


def remove_composite():
    journal.put_table_entry(registered_composites, "RacingBody", journal.MISSING_VALUE, "composite")


RACING_DTYPE = np.dtype([("racing", "V2")])


class PassivePlugin:
    """A plugin whose hook suggests nothing."""

    @plugrad.hookimpl
    def plugrad_configure(self):
        return {}


REGISTRATION_FUNCTIONS = {
    "register_kernel": (
        lambda: plugrad.register_kernel(KernelConfig("Racing", "cpu", lambda x: x)),
        lambda: plugrad.unregister_kernel("Racing", "cpu"),
    ),
    "register_gradient": (
        lambda: plugrad.register_gradient(GradientConfig("Racing", lambda dy, saved, attrs: {})),
        lambda: plugrad.unregister_gradient("Racing"),
    ),
    "kernel": (add_contract, remove_contract),
    "composite": (add_composite, remove_composite),
    "gradient": (
        lambda: gradient_rule(KERNELS["RacingRule"], x=lambda dy: dy),
        lambda: plugrad.unregister_gradient("RacingRule"),
    ),
    "not_differentiable": (
        lambda: not_differentiable(KERNELS["RacingRule"], because="it races"),
        lambda: plugrad.unregister_gradient("RacingRule"),
    ),
    "register_batching": (
        lambda: register_batching("RacingRule", lambda batch, x: x),
        lambda: journal.put_table_entry(
            registered_batchings, "RacingRule", journal.MISSING_VALUE, "batching"
        ),
    ),
    "register_dtype": (
        lambda: register_dtype(
            "racing",
            RACING_DTYPE,
            kind="signed",
            promotion={"int16": "int32"},
            info=np.iinfo(np.int16),
        ),
        lambda: remove_dtype(as_dtype("racing")),
    ),
    "register_backend": (
        lambda: plugrad.register_backend("racing_device", object),
        None,
    ),
    "register_plugin": (
        lambda: plugrad.register_plugin(PassivePlugin()),
        lambda: plugrad.unregister_plugin("PassivePlugin"),
    ),
}


@pytest.mark.parametrize("name", REGISTRATION_FUNCTIONS)
def test_exactly_one_of_several_threads_registers_a_name(name, monkeypatch):
    add, remove = REGISTRATION_FUNCTIONS[name]
    for contract in ("RacingBody", "RacingRule"):
        kernel(contract, family="example")(same_spec_rule)
    rounds = 30
    start = threading.Barrier(THREAD_COUNT)
    added = []

    def compete():
        for i in range(rounds):
            start.wait(30)
            with suppress(PlugradError):
                add()
                added.append(i)
            start.wait(30)
            if start.wait(30) == 0:
                if remove is not None:
                    remove()
                else:
                    from core.conftest import unregister_backend

                    unregister_backend("racing_device")

    with ThreadPoolExecutor(THREAD_COUNT) as pool:
        for future in [pool.submit(compete) for _ in range(THREAD_COUNT)]:
            future.result()
    assert sorted(added) == list(range(rounds))


def test_threads_that_reread_the_environment_see_its_values(monkeypatch):
    """All threads see a value that the environment variable had, and at the end its last value."""

    def change(policy):
        def act():
            os.environ["PLUGRAD_FALLBACK"] = policy
            plugrad.config.reread()
            assert plugrad.config.get("fallback") in ("silent", "error")

        return act

    monkeypatch.setenv("PLUGRAD_FALLBACK", "error")
    run_concurrently(change("silent"), change("error"), change("silent"))
    plugrad.config.reread()
    assert plugrad.config.get("fallback") == os.environ["PLUGRAD_FALLBACK"]


def test_memory_limits_that_threads_set_at_once_are_those_of_one_of_them():
    """The limit is also that of the device when it is opened again."""
    device = open_backend("cpu")

    def limit(number):
        return lambda: plugrad.set_memory_limit(number, backend="cpu")

    try:
        for _ in range(20):
            with ThreadPoolExecutor(2) as pool:
                for future in [pool.submit(limit(10**9 + i)) for i in range(2)]:
                    future.result()
            assert device.memory().limit == state.memory_limits[device.label]
    finally:
        plugrad.set_memory_limit(None, backend="cpu")


# --- whether all of them are tried ----------------------------------------------------------------

STATELESS_CONTEXTS = {
    "suppress_failures": "it changes nothing",
    "MovingAverage.applied": "it assigns to variables, which threads share",
}
NAMES_TESTED_ELSEWHERE = {
    "config.set": "test_settings_that_threads_set_at_once_are_those_of_one_of_them",
    "config.reset": "test_settings_that_threads_set_at_once_are_those_of_one_of_them",
    "config.reread": "test_threads_that_reread_the_environment_see_its_values",
    "config.override": "test_block_is_seen_in_its_own_thread_only",
    "set_memory_limit": "test_memory_limits_that_threads_set_at_once_are_those_of_one_of_them",
    "unregister_kernel": "test_exactly_one_of_several_threads_unregisters_a_name",
    "unregister_gradient": "test_exactly_one_of_several_threads_unregisters_a_name",
    "unregister_plugin": "test_exactly_one_of_several_threads_unregisters_a_name",
}
DECLARING_DECORATORS = {"kernel", "composite", "gradient", "not_differentiable"}
CHANGING_PREFIXES = ("register_", "unregister_", "override_", "set_", "reset")
PUBLIC_MODULES = ("plugrad", "plugrad.extend", "plugrad_nn", "plugrad_distributed", "plugrad_onnx")


def makes_context_manager(function):
    """Whether a function or class returns a context manager."""
    if inspect.isclass(function):
        return hasattr(function, "__enter__")
    made = inspect.unwrap(function)
    return made is not function and inspect.isgeneratorfunction(made)


def state_changing_names():
    """Return the names of all public context managers, and of the functions that change shared state."""
    found = set()
    for page in PUBLIC_MODULES:
        module = pytest.importorskip(page)
        for name in {*getattr(module, "__all__", ()), *dir(module)}:
            value = getattr(module, name)
            if name.startswith("_") or not callable(value):
                continue
            if (
                makes_context_manager(value)
                or name.startswith(CHANGING_PREFIXES)
                or name in DECLARING_DECORATORS
            ):
                found.add(name)
            if inspect.isclass(value) and value.__module__.partition(".")[0] == page:
                found |= {
                    f"{name}.{part}"
                    for part, method in inspect.getmembers(value, inspect.isfunction)
                    if not part.startswith("_") and makes_context_manager(method)
                }
    parts = [n for n in dir(plugrad.config) if n.startswith(("override", "reset", "reread", "set"))]
    return found | {f"config.{name}" for name in parts}


def test_every_public_context_manager_and_registration_is_tested():
    blocks = {name.partition(",")[0] for name in BLOCK_CASES}
    tried = blocks | {*REGISTRATION_FUNCTIONS} | {*NAMES_TESTED_ELSEWHERE} | {*STATELESS_CONTEXTS}
    changes = state_changing_names()
    assert changes - tried == set(), "has no race test"
    assert {*NAMES_TESTED_ELSEWHERE, *STATELESS_CONTEXTS} <= changes, "exists no more"
    assert {*NAMES_TESTED_ELSEWHERE.values()} <= {*globals()}


@pytest.mark.parametrize("name", ["register_kernel", "register_gradient", "register_plugin"])
def test_exactly_one_of_several_threads_unregisters_a_name(name):
    add, remove = REGISTRATION_FUNCTIONS[name]
    rounds = 30
    start = threading.Barrier(THREAD_COUNT)
    removed = []

    def compete():
        for i in range(rounds):
            if start.wait(30) == 0:
                add()
            start.wait(30)
            with suppress(PlugradError):
                remove()
                removed.append(i)

    with ThreadPoolExecutor(THREAD_COUNT) as pool:
        for future in [pool.submit(compete) for _ in range(THREAD_COUNT)]:
            future.result()
    assert sorted(removed) == list(range(rounds))


def test_settings_that_threads_set_at_once_are_those_of_one_of_them():
    def choose(policy):
        def act():
            plugrad.config.set("fallback", policy)
            assert plugrad.config.get("fallback") in ("silent", "warn", "error")

        return act

    run_concurrently(choose("silent"), choose("warn"), choose("error"))
    plugrad.config.set("fallback", "warn")
    assert plugrad.config.explain("fallback") == ("fallback", "warn", "plugrad.config.set")
    plugrad.config.reset()
    assert plugrad.config.explain("fallback").layer == "default"


# --- signals --------------------------------------------------------------------------------------


class AlarmRaised(Exception):
    """The exception that the alarm handler raises."""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no alarms")
@pytest.mark.parametrize("make", [threading.Lock, threading.RLock])
def test_no_signal_leaves_a_lock_locked(make):
    def ring(number, frame):
        raise AlarmRaised

    lock = make()
    held = hold_safely(lock)
    before = signal.signal(signal.SIGALRM, ring)
    try:
        for i in range(300):
            with suppress(AlarmRaised):
                signal.setitimer(signal.ITIMER_REAL, 1e-4 + 1e-6 * i)
                while True:
                    with held:
                        pass
            with ThreadPoolExecutor(
                1
            ) as other:  # a lock that a thread may take again is free to this one
                assert other.submit(lock.acquire, False).result(), i
                if make is threading.Lock:
                    lock.release()
                else:
                    lock = make()
                    held = hold_safely(lock)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
