"""``import plugrad`` loads no plugin, and no library that only plugins need."""

import json
import os
import subprocess
import sys

import pytest

LAZILY_IMPORTED_MODULES = (
    *("wgpu", "wasmtime", "pluggy", "importlib_metadata", "importlib.metadata", "torch", "scipy"),
    *("numpy.random", "numpy.typing", "dataclasses", "pkgutil"),
)


def loaded_modules(program):
    """Return the modules that a fresh interpreter has loaded at the end of a program."""
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
def modules_loaded_by_numpy():
    return set(loaded_modules("import numpy"))


def plugin_implementation_modules(modules):
    return [m for m in modules if m.startswith("plugrad_") and "." not in m and "editable" not in m]


def test_import_loads_no_plugin(modules_loaded_by_numpy):
    modules = set(loaded_modules("import plugrad"))
    assert "plugrad.engine" in modules
    assert plugin_implementation_modules(modules) == []


@pytest.mark.parametrize("library", LAZILY_IMPORTED_MODULES)
def test_import_does_not_load(library, modules_loaded_by_numpy):
    if library in modules_loaded_by_numpy:
        pytest.skip(f"NumPy, or the interpreter's start, loads {library} itself")
    assert library not in loaded_modules("import plugrad")


def test_listing_backends_loads_no_plugin():
    modules = loaded_modules("import plugrad; assert plugrad.backends()")
    assert plugin_implementation_modules(modules) == []
    assert not {"wgpu", "wasmtime", "importlib_metadata"} & set(modules)


def test_using_one_backend_loads_no_other():
    modules = loaded_modules('import plugrad; plugrad.use("cpu"); plugrad.zeros(2) + 1')
    assert plugin_implementation_modules(modules) == [
        "plugrad_cpu",
        "plugrad_native",
    ]  # the backend, and its pack
    assert not {"wgpu", "wasmtime"} & set(modules)
