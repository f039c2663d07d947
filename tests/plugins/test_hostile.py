"""Ten misbehaving plugins are installed at once: only programs that use one get an error, which names the plugin."""

import json
import os
import signal
import subprocess
import sys

import pytest

import plugrad
from plugins.hostile import HOSTILE_PLUGINS, install_hostile_plugins


@pytest.fixture
def hostile_plugins(site):
    install_hostile_plugins(site.folder)
    site.packages += [f"acme_{name}" for name in HOSTILE_PLUGINS] + ["other_duplicate"]
    site.refresh()
    return site


def run_with_hostile_plugins(folder, program, *, timeout=60):
    """Run a program in a fresh interpreter in which the hostile plugins are installed."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PLUGRAD_")}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=inherited | {"PYTHONPATH": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


def test_hostile_plugins_are_listed_with_reasons_but_not_run(hostile_plugins):
    listed = {b.name: b for b in plugrad.backends() if "acme-" in b.distribution}
    assert listed.keys() == HOSTILE_PLUGINS.keys()
    assert {n: b.status for n, b in listed.items()} == {
        n: h.status for n, h in HOSTILE_PLUGINS.items()
    }
    assert {n for n, b in listed.items() if b.reason} == {
        n for n, h in HOSTILE_PLUGINS.items() if h.status != "available"
    }
    assert hostile_plugins.imported() == []


FAILING_PLUGIN_NAMES = [
    name for name, hostile in HOSTILE_PLUGINS.items() if hostile.error is not None
]


@pytest.mark.parametrize("name", FAILING_PLUGIN_NAMES)
def test_using_a_hostile_plugin_raises_its_own_error(hostile_plugins, name):
    for _ in range(2):
        with pytest.raises(HOSTILE_PLUGINS[name].error, match=HOSTILE_PLUGINS[name].message):
            plugrad.use(name)
    assert plugrad.get_kernels_for_backend(name) == []
    assert (plugrad.asarray([1.0]) + 1).tolist() == [2.0]
    assert set(hostile_plugins.imported()) <= {f"acme_{name}"}


def test_other_backends_work_beside_hostile_plugins_in_a_new_process(hostile_plugins):
    done = run_with_hostile_plugins(
        hostile_plugins.folder,
        "import json, sys, plugrad\n"
        "names = [b.name for b in plugrad.backends()]\n"
        "plugrad.use('cpu')\n"
        "x = plugrad.asarray([1.0, 2.0])\n"
        "gradient = plugrad.grad(lambda x: plugrad.sum(x * x))(x).tolist()\n"
        "loaded = [m for m in sys.modules if m.startswith(('acme_', 'other_'))]\n"
        "print(json.dumps([len(names), gradient, loaded, 'pluggy' in sys.modules]))",
    )
    assert done.stderr == ""
    count, gradient, loaded, has_pluggy = json.loads(done.stdout)
    assert count >= len(HOSTILE_PLUGINS) + 2
    assert (gradient, loaded, has_pluggy) == ([2.0, 4.0], [], False)


def test_automatic_choice_skips_hostile_plugins(hostile_plugins):
    done = run_with_hostile_plugins(
        hostile_plugins.folder, "import plugrad; print(plugrad.which().layer)"
    )
    assert (done.stdout.strip(), done.stderr) == ("automatic choice", "")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals")
def test_plugin_that_kills_the_process_affects_only_its_users(hostile_plugins):
    assert (
        run_with_hostile_plugins(
            hostile_plugins.folder, "import plugrad; plugrad.use('segfault')"
        ).returncode
        == -signal.SIGSEGV
    )


def test_plugin_that_hangs_affects_only_its_users(hostile_plugins):
    with pytest.raises(subprocess.TimeoutExpired):
        run_with_hostile_plugins(
            hostile_plugins.folder, "import plugrad; plugrad.use('hang')", timeout=3
        )
