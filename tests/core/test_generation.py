"""The key that changes with everything that may change what a call computes."""

import time
import timeit
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import plugrad
from core.test_races import PassivePlugin, run_concurrently, short_switch_interval  # noqa: F401 - a fixture
from plugrad import GradientConfig, KernelConfig
from plugrad.extend import Spec, composite, kernel
from plugrad.kernels import unary
from plugrad.registry.generation import registry_generation
from plugrad.registry.transaction import snapshot_registries
from plugrad.settings.layers import config


def multiply_by_9(x):
    return x * 9


def declare_kernel():
    @kernel("Declared", family="example")
    def declared(x: Spec) -> Spec:
        return x

    return declared


REGISTRY_CHANGES = {
    "register_kernel": lambda: plugrad.register_kernel(
        KernelConfig("Racing", "cpu", multiply_by_9)
    ),
    "replace a kernel": lambda: plugrad.register_kernel(
        KernelConfig("Abs", "cpu", multiply_by_9), replace=True
    ),
    "unregister_kernel": lambda: plugrad.unregister_kernel("Abs", "cpu"),
    "copy_registered_kernels": lambda: plugrad.copy_registered_kernels("cpu", "example_device"),
    "register_gradient": lambda: plugrad.register_gradient(
        GradientConfig("Racing", lambda dy, saved, attrs: {})
    ),
    "replace a gradient": lambda: plugrad.register_gradient(
        unary.abs, x=lambda dy: dy, replace=True
    ),
    "unregister_gradient": lambda: plugrad.unregister_gradient("Abs"),
    "a contract": declare_kernel,
    "a composite": lambda: composite(declare_kernel())(lambda x: x + x),
    "config.set": lambda: config.set("fallback", "silent"),
    "config.reset": config.reset,
}


@pytest.mark.parametrize("name", REGISTRY_CHANGES)
def test_generation_changes_with_every_registry_change(name):
    before = registry_generation()
    restore = snapshot_registries()
    REGISTRY_CHANGES[name]()
    changed = registry_generation()
    assert changed != before
    restore()
    config.reset()
    assert registry_generation() not in (before, changed)


def test_generation_changes_when_hooks_are_added_or_removed():
    before = registry_generation()
    plugrad.register_plugin(PassivePlugin())
    changed = registry_generation()
    plugrad.unregister_plugin("PassivePlugin")
    assert len({before, changed, registry_generation()}) == 3


def test_generation_changes_when_a_device_is_opened_or_closed(fake_backend_name):
    before = registry_generation()
    with plugrad.use(fake_backend_name):
        plugrad.zeros(1)
    opened = registry_generation()
    plugrad.close_backend(plugrad.asarray(0.0, device=fake_backend_name).backend)
    assert len({before, opened, registry_generation()}) == 3


OVERRIDING_BLOCKS = {
    "override_kernel": lambda: plugrad.override_kernel("Abs", "cpu", multiply_by_9),
    "debug": lambda: config.override("debug", True),
    "fallback": lambda: config.override("fallback", "silent"),
    "fallback_order": lambda: config.override("fallback_order", ["webgpu", "cpu"]),
    "transfer": lambda: plugrad.use("cpu", transfer=True),
}


@pytest.mark.parametrize("name", OVERRIDING_BLOCKS)
def test_generation_differs_inside_override_blocks_and_is_equal_in_equal_blocks(name):
    before = registry_generation()
    keys = []
    for _ in range(2):
        with OVERRIDING_BLOCKS[name]():
            keys.append(registry_generation())
        assert registry_generation() == before
    assert keys[0] == keys[1] != before
    with OVERRIDING_BLOCKS[name](), ThreadPoolExecutor(1) as pool:
        assert pool.submit(registry_generation).result() == before
        assert pool.submit(plugrad.carry_context(registry_generation)).result() == keys[0]
    hash(keys[0])


def test_generation_differs_while_a_gradient_is_overridden():
    before = registry_generation()
    with plugrad.override_gradient(unary.abs, x=lambda dy: dy):
        first = registry_generation()
        with plugrad.override_gradient(unary.abs, x=lambda dy: dy):
            assert registry_generation() not in (before, first)
        assert registry_generation() == first != before
    assert registry_generation() == before


def test_generation_ignores_changes_that_cannot_change_results():
    before = registry_generation()
    with plugrad.use("cpu"), plugrad.tidy(), plugrad.profile():
        assert registry_generation() == before
        plugrad.grad(lambda x: plugrad.sum(plugrad.erf(x) + plugrad.cumulative_sum(x)))(np.ones(3))
    assert registry_generation() == before


def test_generation_ignores_lazily_imported_gradients():
    before = registry_generation()
    plugrad.get_gradients()
    assert registry_generation() == before


def test_generation_numbers_are_never_reused(short_switch_interval):  # noqa: F811 - the fixture
    seen = []

    def replace():
        plugrad.register_kernel(KernelConfig("Racing", "cpu", multiply_by_9), replace=True)

    def read_generations():
        key = registry_generation()
        if not seen or seen[-1] != key:
            seen.append(key)
        time.sleep(0)

    run_concurrently(replace, replace, read_generations)
    assert len(seen) == len(set(seen))


def test_registry_generation_is_cheap_to_compute():
    least = min(timeit.repeat(registry_generation, number=10_000, repeat=20)) / 10_000
    nothing = min(timeit.repeat(lambda: None, number=10_000, repeat=20)) / 10_000
    assert least < 8 * nothing  # 0.1 µs, where a call of nothing takes 0.03
