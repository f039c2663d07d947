"""Plugins that are slow, wait for each other or are interrupted: nobody else waits, and nothing is half done."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import plugrad
from plugins.hostile import backend_source
from plugins.test_misbehaving import check_other_backends, registered_names
from plugrad.discovery.load_locks import load_lock
from plugrad.discovery.loading import open_backend
from plugrad.errors import BackendUnavailable


@pytest.fixture
def thread_gate(monkeypatch):
    """Two events that a plugin's source reads as ``threading.gate``: it has started, and it may continue."""
    gate = threading.Event(), threading.Event()
    monkeypatch.setattr(threading, "gate", gate, raising=False)
    yield gate
    gate[1].set()


WAIT_SOURCE = "threading.gate[0].set(); assert threading.gate[1].wait(20)"
SLOW_PLUGINS = {
    "import": f"import threading\n{WAIT_SOURCE}\n" + backend_source("slow"),
    "probe": "import threading\n" + backend_source("slow", probe=WAIT_SOURCE),
    "open": "import threading\n"
    + backend_source("slow", returned="Slow()")
    + f"class Slow(Toy):\n    def open(self, device):\n        {WAIT_SOURCE}\n        return super().open(device)\n",
}


@pytest.mark.parametrize("source", SLOW_PLUGINS.values(), ids=SLOW_PLUGINS)
def test_slow_plugin_does_not_stop_others(site, thread_gate, source):
    site.install("slow", source)
    site.install("toy")
    with ThreadPoolExecutor(2) as pool:
        slow = [pool.submit(open_backend, "slow") for _ in range(2)]
        assert thread_gate[0].wait(20)
        check_other_backends()
        assert plugrad.asarray([1.0], device="toy").tolist() == [1.0]  # another one is opened
        assert {"slow", "toy"} <= {p.name for p in plugrad.backends(refresh=False)}
        plugrad.register_kernel(plugrad.KernelConfig("Late", "cpu", lambda x: x))
        assert not any(future.done() for future in slow)
        thread_gate[1].set()
        assert slow[0].result(20) is slow[1].result(20)
    assert plugrad.get_kernel("Late", "cpu") is not None  # what others did meanwhile stays


def test_failed_slow_import_keeps_registrations_of_others(site, thread_gate):
    site.install(
        "slow",
        "import threading, plugrad\n"
        "plugrad.register_kernel(plugrad.KernelConfig('Early', 'cpu', lambda x: x))\n"
        f"{WAIT_SOURCE}\nraise OSError('no chip')",
    )
    site.install("toy")
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(open_backend, "slow")
        assert thread_gate[0].wait(20)
        plugrad.register_kernel(plugrad.KernelConfig("Late", "cpu", lambda x: x))
        open_backend("toy")
        thread_gate[1].set()
        with pytest.raises(BackendUnavailable, match="no chip"):
            slow.result(20)
    assert plugrad.get_kernel("Early", "cpu") is None
    assert plugrad.get_kernel("Late", "cpu") is not None
    assert plugrad.get_kernel("Add", "toy") is not None


def test_backends_that_open_each_other_in_two_threads_raise_an_error(site, monkeypatch):
    meet = "import threading, plugrad\nthreading.meet()\nplugrad.use('{}')\n"
    both = threading.Barrier(2)
    met = []

    def meet_once():
        met.append(threading.get_ident())
        if len(met) <= 2:
            both.wait(20)

    monkeypatch.setattr(threading, "meet", meet_once, raising=False)
    for name, other in (("one", "two"), ("two", "one")):
        site.install(name, meet.format(other) + backend_source(name))

    def ask(name):
        try:
            return open_backend(name).name
        except BackendUnavailable as error:
            return str(error)

    with ThreadPoolExecutor(2) as pool:
        told = list(pool.map(ask, ("one", "two"), timeout=20))
    assert any("is being opened by another thread, which waits" in text for text in told)
    check_other_backends()


def test_plugin_may_compute_during_its_import(site):
    site.install(
        "toy",
        "import plugrad\n"
        "x = plugrad.asarray([1.0], device='cpu')\n"
        "assert plugrad.grad(lambda x: plugrad.sum(x * x))(x).tolist() == [2.0]\n"
        + backend_source("toy"),
    )
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(open_backend, ["toy"] * 4, timeout=20))) == 1


def test_load_lock_is_released_after_any_error():
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error):
            fail_with_load_lock(error)
    others = threading.Thread(target=lambda: load_lock("key").__enter__())
    others.start()
    others.join(10)
    assert not others.is_alive()


def fail_with_load_lock(error):
    with load_lock("key") as has_turn, load_lock("key") as has_it_again:
        assert (has_turn, has_it_again) == (True, True)
        raise error


# --- interruptions --------------------------------------------------------------------------------

LEFTOVER_SOURCE = """
import plugrad
from plugrad.kernels import unary
plugrad.register_kernel(plugrad.KernelConfig("Early", "cpu", lambda x: x))
plugrad.register_gradient(unary.exp, replace=True, x=lambda dy: dy * 0)
plugrad.config.set("fallback", "silent")
"""
INTERRUPT_SOURCE = """
    if not hasattr(plugrad, "interrupted"):
        plugrad.interrupted = True
        raise KeyboardInterrupt
"""
INTERRUPTED_PLUGINS = {
    "import": LEFTOVER_SOURCE + "if True:" + INTERRUPT_SOURCE + backend_source("toy"),
    "factory": LEFTOVER_SOURCE + "def interrupt():" + INTERRUPT_SOURCE
    + backend_source("toy", returned="[interrupt(), Toy()][1]"),
    "probe": LEFTOVER_SOURCE + "def interrupt():" + INTERRUPT_SOURCE + backend_source("toy", probe="interrupt()"),
    "setup": LEFTOVER_SOURCE + "def interrupt(backend):" + INTERRUPT_SOURCE
    + backend_source("toy", returned="Slow()")
    + "class Slow(Toy):\n    def open(self, device):\n"
    "        return [c._replace(setup_func=interrupt) for c in super().open(device)]\n",
}  # fmt: skip


@pytest.mark.parametrize("source", INTERRUPTED_PLUGINS.values(), ids=INTERRUPTED_PLUGINS)
def test_interrupted_plugin_load_propagates_and_is_rolled_back(site, source, monkeypatch):
    monkeypatch.setattr(plugrad, "interrupted", None, raising=False)
    del plugrad.interrupted
    before = registered_names()
    site.install("toy", source)
    with pytest.raises(KeyboardInterrupt):
        open_backend("toy")
    after = registered_names()
    assert {kind for kind in before if before[kind] != after[kind]} == set()
    assert plugrad.get_kernels_for_backend("toy") == []
    check_other_backends()
    with pytest.warns(RuntimeWarning, match="'toy' .* replaces gradient Exp"):
        backend = open_backend("toy")  # nothing stands in the way of trying again
    assert plugrad.get_kernel("Early", "cpu") is not None
    assert plugrad.asarray([1.0], device=backend).tolist() == [1.0]
    plugrad.config.reset("fallback")


def test_interrupted_hooks_are_loaded_by_the_next_call(site, monkeypatch):
    monkeypatch.setattr(plugrad, "interrupted", None, raising=False)
    del plugrad.interrupted
    site.install_pack(
        "plugins",
        "acme",
        "import plugrad\nif True:" + INTERRUPT_SOURCE + "\n"
        "@plugrad.hookimpl\ndef plugrad_configure():\n    return {'memory_limit': '1TB'}\n",
    )
    with pytest.raises(KeyboardInterrupt):
        plugrad.config.get("memory_limit")
    assert plugrad.config.get("memory_limit") == 10**12


# --- what a failure takes back, and what it does not ----------------------------------------------


def test_device_is_released_if_its_kernels_cannot_be_set_up(site):
    site.install(
        "toy",
        backend_source("toy", returned="Half()") + "STEPS = []\n"
        "def setup(backend):\n"
        "    STEPS.append('setup')\n"
        "    assert len(STEPS) < 2, 'the second one fails'\n"
        "class Half(Toy):\n"
        "    def open(self, device):\n"
        "        dispose = lambda backend: STEPS.append('dispose')\n"
        "        return [c._replace(setup_func=setup, dispose_func=dispose) for c in super().open(device)]\n"
        "    def close(self):\n"
        "        STEPS.append('close')\n",
    )
    with pytest.raises(BackendUnavailable, match="the second one fails"):
        open_backend("toy")
    import acme_toy

    assert acme_toy.STEPS == ["setup", "setup", "dispose", "close"]


def test_registrations_of_an_import_return_when_the_backend_starts(site):
    site.install(
        "toy",
        "import plugrad\n"
        "from plugrad.extend import Spec, kernel\n"
        "@kernel('Late', family='acme')\n"
        "def late(x: Spec) -> Spec:\n    return x\n"
        + backend_source("toy", probe="if not hasattr(plugrad, 'chip'): raise OSError('no chip')"),
    )
    with pytest.raises(BackendUnavailable, match="no chip"):
        open_backend("toy")
    assert "Late" not in plugrad.extend.KERNELS
    plugrad.chip = True
    try:
        plugrad.plugins(refresh=True)
        open_backend("toy")
    finally:
        del plugrad.chip
    assert "Late" in plugrad.extend.KERNELS


def test_listing_is_quick_whatever_a_summary_says(site, run_cli):
    words = "x" * 30_000 + " y" * 15_000
    site.install("toy", manifest=f'api = "1.0"\nsummary = "\\u001b[2J{words}"\n')
    started = time.monotonic()
    status, printed, _ = run_cli("list")
    assert (status, time.monotonic() - started < 5) == (0, True)
    assert "\x1b" not in printed
    assert len(printed) < 10_000


def test_pack_that_says_what_it_replaces_is_listed_with_it(site, run_cli):
    site.install("toy", manifest='api = "1.0"\nkernels = ["Add", "Exp"]\n')
    files = {"acme_toy_acme/plugrad-plugin.toml": 'api = "1.0"\nkernels = ["Add", "Cube"]\n'}
    site.install_pack("kernels", "toy.acme", "", target=":register", files=files)
    files = {"acme_hooked/plugrad-plugin.toml": 'api = "1.0"\nreplaces = ["Exp"]\n'}
    site.install_pack("plugins", "hooked", "", files=files)
    _, printed, _ = run_cli("list")
    (pack,) = [line for line in printed.splitlines() if "toy.acme" in line]
    (hooked,) = [line for line in printed.splitlines() if "acme-hooked" in line]
    assert "Replaces of others: Add" in pack
    assert "Cube" not in pack
    assert "Replaces of others: Exp" in hooked
    assert site.imported() == []
