"""Wheels of the wasm backend; `test_source_distributions` compares a second compilation with the bytes in use."""

import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("ziglang")

BUILD_HOOK_FILE = Path(__file__).parents[3] / "plugins" / "wasm" / "hatch_build.py"


@pytest.fixture(scope="module")
def build_hook():
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("hatch_build", BUILD_HOOK_FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_wheels_are_equal_small_and_for_every_platform(build_hook, tmp_path):
    if build_hook.is_stale():
        pytest.skip("a C source was edited after the last build")
    wheels = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(build, cwd=build_hook.PLUGIN_DIR, check=True, capture_output=True)
        wheels += folder.iterdir()
    assert [wheel.name.split("-", 2)[2] for wheel in wheels] == ["py3-none-any.whl"] * 2
    assert wheels[0].read_bytes() == wheels[1].read_bytes()
    assert wheels[0].stat().st_size < 600_000
    with zipfile.ZipFile(wheels[0]) as wheel:
        modules = {name for name in wheel.namelist() if name.endswith(".wasm")}
    assert modules == {f"plugrad_wasm/{build_hook.KERNELS_WASM_FILE.name}"}
