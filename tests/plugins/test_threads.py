"""Plugins and threads: one load however many ask, and what a thread does not inherit."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import plugrad
from plugins.hostile import backend_source
from plugrad.discovery.loading import open_backend

SLOW_BACKEND_SOURCE = "import time\nCREATED = []\n" + backend_source(
    "toy", probe="time.sleep(0.02); CREATED.append(self)"
)


def test_backend_is_opened_once_however_many_threads_ask(site):
    site.install("toy", SLOW_BACKEND_SOURCE)
    ready = threading.Barrier(8)

    def ask(_):
        ready.wait(10)
        return open_backend("toy")

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(8)))) == 1
    import acme_toy

    assert len(acme_toy.CREATED) == 1


def test_every_waiting_thread_gets_the_startup_error(site):
    site.install("toy", "import time\ntime.sleep(0.05)\nraise OSError('no chip')")

    def ask(_):
        with pytest.raises(plugrad.errors.BackendUnavailable, match="no chip"):
            open_backend("toy")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(ask, range(4)))


def test_listing_while_others_load_and_refresh(site):
    site.install("toy")

    def work(i):
        plugrad.plugins(refresh=i % 3 == 0)
        return plugrad.zeros(1, device="cpu").to("toy").device

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(work, range(40))) == {"toy:0"}


def test_settings_may_change_in_one_thread_while_others_read(site):
    def work(i):
        plugrad.config.set("memory_limit", i)
        plugrad.config.reset("memory_limit" if i % 2 else None)
        return plugrad.config.get("memory_limit")

    with ThreadPoolExecutor(8) as pool:
        assert all(value is None or value < 200 for value in pool.map(work, range(200)))


# --- carry_context --------------------------------------------------------------------------------


def active_device():
    return plugrad.zeros(1).device


@pytest.fixture
def toy_backend(site):
    site.install("toy")
    plugrad.config.set("fallback", "silent")


def test_threads_start_with_a_fresh_context_unless_carried(toy_backend):
    with plugrad.use("toy"), ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: active_device(), range(4))) == {"cpu:0"}
        assert set(pool.map(plugrad.carry_context(lambda _: active_device()), range(16))) == {
            "toy:0"
        }
    assert active_device() == "cpu:0"


def test_carry_context_captures_the_context_of_its_call(toy_backend):
    with plugrad.use("toy"):
        carried = plugrad.carry_context(active_device)
    assert (carried(), active_device(), carried.__name__) == ("toy:0", "cpu:0", "active_device")


def test_calls_of_a_carried_function_do_not_see_each_others_choice(toy_backend):
    @plugrad.carry_context
    def choose():
        before = active_device()
        plugrad.use("toy")
        return before, active_device()

    assert [choose(), choose()] == [("cpu:0", "toy:0")] * 2
    assert active_device() == "cpu:0"


def test_carried_transfer_and_tidy(toy_backend):
    x = plugrad.asarray([1.0])
    with plugrad.tidy() as scope, plugrad.use("toy", transfer=True), ThreadPoolExecutor(1) as pool:
        y = pool.submit(plugrad.carry_context(lambda: x + x)).result()
        kept = scope.keep(y * 1)
    assert (y.is_disposed, kept.device) == (True, "toy:0")


def test_asyncio_tasks_inherit_the_context(toy_backend):
    async def work():
        return active_device()

    async def main():
        with plugrad.use("toy"):
            task = asyncio.create_task(work())
        return await task

    assert asyncio.run(main()) == "toy:0"
