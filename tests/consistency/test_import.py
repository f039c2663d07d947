"""``import plugrad`` loads no plugin, and nothing that only plugins need."""

import json
import os
import subprocess
import sys

import pytest

LATER = (
    *("wgpu", "wasmtime", "pluggy", "importlib_metadata", "importlib.metadata", "torch", "scipy"),
    *("numpy.random", "numpy.typing", "dataclasses", "pkgutil"),
)


def loaded(program):
    """Return the modules that a fresh interpreter has loaded after a program."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PLUGRAD_")}
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"{program}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))",
        ],
        env=inherited,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def without_plugrad():
    return set(loaded("import numpy"))


def plugins(modules):
    return [m for m in modules if m.startswith("plugrad_") and "." not in m and "editable" not in m]


def test_import_loads_no_plugin(without_plugrad):
    modules = set(loaded("import plugrad"))
    assert "plugrad.engine" in modules
    assert plugins(modules) == []


@pytest.mark.parametrize("library", LATER)
def test_import_does_not_load(library, without_plugrad):
    if library in without_plugrad:
        pytest.skip(f"NumPy, or the interpreter's start, loads {library} itself")
    assert library not in loaded("import plugrad")


def test_listing_backends_loads_no_plugin():
    modules = loaded("import plugrad; assert plugrad.backends()")
    assert plugins(modules) == []
    assert not {"wgpu", "wasmtime", "importlib_metadata"} & set(modules)


def test_using_one_backend_loads_no_other():
    modules = loaded('import plugrad; plugrad.use("cpu"); plugrad.zeros(2) + 1')
    assert plugins(modules) == ["plugrad_cpu", "plugrad_native"]  # the backend, and its pack
    assert not {"wgpu", "wasmtime"} & set(modules)
